// Runs an exported bundle on a file of float32 numbers and prints the best class.
//
//   classify FOLDER IMAGE.bin      FOLDER is what `edgeopt export --to cpp` wrote
//
// For a model with one input. numpy writes such a file: array.astype("float32").tofile("image.bin")

#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "options.hpp"
#include "session.hpp"
#include "tensor.hpp"

// The input of your model: its name and shape are in the README.md of the export.
static const std::string kInput = "image";
static const std::vector<int64_t> kShape = {1, 1, 32, 32};

static Tensor read_image(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  Tensor image{kInput, "float32", kShape, {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}};
  if (image.bytes.size() != image.count() * sizeof(float)) throw std::runtime_error(path + " has another size");
  return image;
}

int main(int argc, char** argv) try {
  if (argc != 3) throw std::runtime_error("usage: classify FOLDER IMAGE.bin");
  const std::string folder = argv[1];
  Model model(folder + "/" + options::kModel);  // load once, run often; several threads may run it

  const std::vector<Tensor> outputs = model.run({read_image(argv[2])});
  const Tensor& logits = outputs.at(0);
  size_t best = 0;
  for (size_t index = 1; index < logits.count(); ++index)
    if (value(logits, index) > value(logits, best)) best = index;
  std::printf("class %zu, %s %.3f\n", best, logits.name.c_str(), value(logits, best));
  return 0;
} catch (const std::exception& error) {
  std::cerr << "classify: " << error.what() << "\n";
  return 2;
}
