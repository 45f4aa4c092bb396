// The model in ONNX Runtime, with the options of options.hpp. One Model may be run by several threads.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "options.hpp"
#include "tensor.hpp"

// ONNX Runtime tells its makers what is run unless it is told not to before it starts.
inline Ort::Env quiet_environment() {
#ifdef _WIN32
  Ort::Env made(ORT_LOGGING_LEVEL_ERROR, "edgeopt");
  made.DisableTelemetryEvents();
  return made;
#else
  setenv("ORT_DISABLE_TELEMETRY", "1", 0);
  return Ort::Env(ORT_LOGGING_LEVEL_ERROR, "edgeopt");
#endif
}

class Model {
 public:
  explicit Model(const std::string& path)
      : env_(quiet_environment()),
        session_(env_, std::basic_string<ORTCHAR_T>(path.begin(), path.end()).c_str(), options::session()) {
    Ort::AllocatorWithDefaultOptions allocator;
    for (size_t index = 0; index < session_.GetInputCount(); ++index)
      inputs_.push_back(session_.GetInputNameAllocated(index, allocator).get());
    for (size_t index = 0; index < session_.GetOutputCount(); ++index)
      outputs_.push_back(session_.GetOutputNameAllocated(index, allocator).get());
  }

  std::vector<Tensor> run(const std::vector<Tensor>& feeds) {
    const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    std::vector<const char*> input_names, output_names;
    std::vector<Ort::Value> values;
    for (const std::string& name : inputs_) {
      const Tensor& feed = named(feeds, name);
      input_names.push_back(name.c_str());
      values.push_back(Ort::Value::CreateTensor(memory, const_cast<char*>(feed.bytes.data()), feed.bytes.size(),
                                                feed.shape.data(), feed.shape.size(), type(feed.type)));
    }
    for (const std::string& name : outputs_) output_names.push_back(name.c_str());
    Ort::RunOptions run_options = options::run();
    std::vector<Ort::Value> results = session_.Run(run_options, input_names.data(), values.data(), values.size(),
                                                   output_names.data(), output_names.size());
    std::vector<Tensor> found;
    for (size_t index = 0; index < results.size(); ++index) {
      const auto info = results[index].GetTensorTypeAndShapeInfo();
      Tensor tensor{outputs_[index], name_of(info.GetElementType()), info.GetShape(), {}};
      const char* data = results[index].GetTensorMutableData<char>();
      tensor.bytes.assign(data, data + tensor.count() * size(info.GetElementType()));
      found.push_back(std::move(tensor));
    }
    return found;
  }

 private:
  struct Kind {
    ONNXTensorElementDataType type;
    const char* name;
    size_t size;
  };

  static const std::vector<Kind>& kinds() {
    static const std::vector<Kind> all = {
        {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, "float32", 4},  {ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, "float64", 8},
        {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, "float16", 2}, {ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, "bool", 1},
        {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, "int8", 1},      {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, "int16", 2},
        {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, "int32", 4},    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, "int64", 8},
        {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, "uint8", 1},    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, "uint16", 2},
        {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, "uint32", 4},  {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64, "uint64", 8},
    };
    return all;
  }
  static ONNXTensorElementDataType type(const std::string& name) {
    for (const Kind& kind : kinds())
      if (name == kind.name) return kind.type;
    throw std::runtime_error("unknown type " + name);
  }
  static const Kind& kind_of(ONNXTensorElementDataType type) {
    for (const Kind& kind : kinds())
      if (type == kind.type) return kind;
    throw std::runtime_error("an output has a type that is not handled here");
  }
  static std::string name_of(ONNXTensorElementDataType type) { return kind_of(type).name; }
  static size_t size(ONNXTensorElementDataType type) { return kind_of(type).size; }
  static const Tensor& named(const std::vector<Tensor>& feeds, const std::string& name) {
    for (const Tensor& feed : feeds)
      if (feed.name == name) return feed;
    throw std::runtime_error("the input '" + name + "' is missing");
  }

  Ort::Env env_;
  Ort::Session session_;
  std::vector<std::string> inputs_, outputs_;
};
