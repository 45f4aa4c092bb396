// Runs the golden samples of an edgeopt bundle and compares; session.hpp is what a program of your own needs.
//
//   run FOLDER         the folder with model/ and golden/; exit code 0 when the answers are good

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "options.hpp"
#include "session.hpp"
#include "tensor.hpp"

struct Sample {
  std::vector<Tensor> inputs;
  std::vector<Tensor> reference;
};

static std::vector<char> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return std::vector<char>(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// golden/samples.txt: a tensor a line: sample, "input" or "reference", type, file, rank, dimensions, name.
static std::vector<Sample> read_samples(const std::string& folder) {
  std::ifstream list(folder + "/golden/samples.txt");
  if (!list) throw std::runtime_error("cannot read " + folder + "/golden/samples.txt");
  std::vector<Sample> samples;
  size_t number = 0;
  std::string kind, file;
  Tensor tensor;
  size_t rank = 0;
  while (list >> number >> kind >> tensor.type >> file >> rank) {
    tensor.shape.resize(rank);
    for (int64_t& dim : tensor.shape) list >> dim;
    list.get();  // the blank before the name, which may hold others
    std::getline(list, tensor.name);
    tensor.bytes = read_bytes(folder + "/golden/" + file);
    if (samples.size() <= number) samples.resize(number + 1);
    (kind == "input" ? samples[number].inputs : samples[number].reference).push_back(tensor);
  }
  return samples;
}

struct Power {
  double signal = 0.0;
  double noise = 0.0;
};

static void add(Power& power, const Tensor& wanted, const Tensor& found) {
  if (wanted.shape != found.shape) {
    power.noise = std::numeric_limits<double>::infinity();
    return;
  }
  for (size_t index = 0; index < wanted.count(); ++index) {
    const double a = value(wanted, index), b = value(found, index);
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(a)) power.signal += a * a;
      continue;
    }
    power.signal += a * a;
    power.noise += (a - b) * (a - b);
  }
}

int main(int argc, char** argv) try {
  const std::string folder = argc > 1 ? argv[1] : ".";
  Model model(folder + "/" + options::kModel);
  std::map<std::string, Power> powers;
  std::vector<double> times;
  for (const Sample& sample : read_samples(folder)) {
    std::vector<Tensor> outputs = model.run(sample.inputs);
    for (int turn = 0; turn < 20; ++turn) {
      const auto start = std::chrono::steady_clock::now();
      outputs = model.run(sample.inputs);
      times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    for (const Tensor& wanted : sample.reference) {
      const auto found = std::find_if(outputs.begin(), outputs.end(),
                                      [&](const Tensor& output) { return output.name == wanted.name; });
      if (found == outputs.end()) throw std::runtime_error("the output '" + wanted.name + "' is missing");
      add(powers[wanted.name], wanted, *found);
    }
  }
  double worst = powers.empty() ? -std::numeric_limits<double>::infinity() : 200.0;
  for (const auto& [name, power] : powers) {
    if (power.noise == 0.0) continue;
    const double ratio = 10.0 * std::log10(std::max(power.signal, 1e-60) / power.noise);
    worst = std::isnan(ratio) ? -std::numeric_limits<double>::infinity() : std::min(worst, ratio);
  }
  std::sort(times.begin(), times.end());
  std::printf("golden samples: %.2f dB; at least %.2f dB is needed\n", worst, options::kFloorDb);
  if (!times.empty()) std::printf("median of %zu runs: %.3f ms\n", times.size(), times[times.size() / 2]);
  return worst >= options::kFloorDb ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "run: " << error.what() << "\n";
  return 2;
}
