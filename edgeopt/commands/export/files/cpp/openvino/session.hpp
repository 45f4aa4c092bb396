// The model in OpenVINO, with the options of options.hpp. Each thread needs a Model of its own.
#pragma once

#include <openvino/openvino.hpp>

#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"
#include "tensor.hpp"

class Model {
 public:
  explicit Model(const std::string& path) : source_(core_.read_model(path, "", options::read())) { request(true); }

  std::vector<Tensor> run(const std::vector<Tensor>& feeds) {
    std::vector<const Tensor*> ordered;
    bool fixed = true;
    for (size_t index = 0; index < options::kInputs.size(); ++index) {
      const std::string& name = options::kInputs[index];
      ordered.push_back(&named(feeds, name));
      const auto shape = options::shapes().find(name);
      if (shape != options::shapes().end()) fixed = fixed && shape->second == ordered.back()->shape;
    }
    // The shapes that it was made fast for; any others run in a program of their own.
    ov::InferRequest& request = this->request(fixed);
    for (size_t index = 0; index < ordered.size(); ++index) {
      const Tensor& feed = *ordered[index];
      const ov::Shape shape(feed.shape.begin(), feed.shape.end());
      // The request reads the caller's bytes where they are.
      request.set_input_tensor(index, ov::Tensor(type(feed.type), shape, const_cast<char*>(feed.bytes.data())));
    }
    if (!request.query_state().empty()) request.reset_state();
    request.infer();
    std::vector<Tensor> found;
    for (size_t index = 0; index < options::kOutputs.size(); ++index) {
      const ov::Tensor result = request.get_output_tensor(index);
      const ov::Shape& shape = result.get_shape();
      Tensor tensor{options::kOutputs[index], name_of(result.get_element_type()),
                    std::vector<int64_t>(shape.begin(), shape.end()), {}};
      const char* data = static_cast<const char*>(result.data());
      tensor.bytes.assign(data, data + result.get_byte_size());
      found.push_back(std::move(tensor));
    }
    return found;
  }

 private:
  ov::InferRequest& request(bool fixed) {
    const auto known = requests_.find(fixed);
    if (known != requests_.end()) return known->second;
    std::shared_ptr<ov::Model> model = source_->clone();
    if (fixed && !options::shapes().empty()) {
      std::map<size_t, ov::PartialShape> shapes;
      for (size_t index = 0; index < options::kInputs.size(); ++index) {
        const auto shape = options::shapes().find(options::kInputs[index]);
        if (shape != options::shapes().end())
          shapes[index] = ov::PartialShape(std::vector<ov::Dimension>(shape->second.begin(), shape->second.end()));
      }
      model->reshape(shapes);
    }
    ov::CompiledModel compiled = core_.compile_model(model, options::kDevice, options::config());
    return requests_.emplace(fixed, compiled.create_infer_request()).first->second;
  }

  static const std::vector<std::pair<std::string, ov::element::Type>>& kinds() {
    static const std::vector<std::pair<std::string, ov::element::Type>> all = {
        {"float32", ov::element::f32}, {"float64", ov::element::f64}, {"float16", ov::element::f16},
        {"bool", ov::element::boolean}, {"int8", ov::element::i8},    {"int16", ov::element::i16},
        {"int32", ov::element::i32},   {"int64", ov::element::i64},   {"uint8", ov::element::u8},
        {"uint16", ov::element::u16},  {"uint32", ov::element::u32},  {"uint64", ov::element::u64},
    };
    return all;
  }
  static ov::element::Type type(const std::string& name) {
    for (const auto& [known, kind] : kinds())
      if (known == name) return kind;
    throw std::runtime_error("unknown type " + name);
  }
  static std::string name_of(const ov::element::Type& type) {
    for (const auto& [known, kind] : kinds())
      if (kind == type) return known;
    throw std::runtime_error("an output has a type that is not handled here");
  }
  static const Tensor& named(const std::vector<Tensor>& feeds, const std::string& name) {
    for (const Tensor& feed : feeds)
      if (feed.name == name) return feed;
    throw std::runtime_error("the input '" + name + "' is missing");
  }

  ov::Core core_;
  std::shared_ptr<ov::Model> source_;
  std::map<bool, ov::InferRequest> requests_;
};
