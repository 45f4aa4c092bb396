// A tensor as bytes, and how its numbers are read.
#pragma once

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

struct Tensor {
  std::string name;
  std::string type;  // as numpy says: float32, int64, ...
  std::vector<int64_t> shape;
  std::vector<char> bytes;

  size_t count() const {
    return std::accumulate(shape.begin(), shape.end(), size_t{1},
                           [](size_t product, int64_t dim) { return product * static_cast<size_t>(dim); });
  }
};

inline double half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {
    const double value = static_cast<double>(fraction) / 16777216.0;
    return sign ? -value : value;
  }
  exponent = exponent == 0x1fu ? 0xffu : exponent + 112u;
  const uint32_t wide = sign | (exponent << 23) | (fraction << 13);
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

template <typename Number>
double at(const Tensor& tensor, size_t index) {
  Number number;
  std::memcpy(&number, tensor.bytes.data() + index * sizeof(Number), sizeof number);
  return static_cast<double>(number);
}

// The value at a place, whatever its type; it must be one of those that edgeopt exports.
inline double value(const Tensor& tensor, size_t index) {
  const std::string& type = tensor.type;
  if (type == "float32") return at<float>(tensor, index);
  if (type == "float64") return at<double>(tensor, index);
  if (type == "float16") return half(static_cast<uint16_t>(at<uint16_t>(tensor, index)));
  if (type == "int64") return at<int64_t>(tensor, index);
  if (type == "int32") return at<int32_t>(tensor, index);
  if (type == "int16") return at<int16_t>(tensor, index);
  if (type == "int8") return at<int8_t>(tensor, index);
  if (type == "uint64") return at<uint64_t>(tensor, index);
  if (type == "uint32") return at<uint32_t>(tensor, index);
  if (type == "uint16") return at<uint16_t>(tensor, index);
  return at<uint8_t>(tensor, index);  // uint8 and bool
}
