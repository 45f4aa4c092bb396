"""Writes small random models of Keras, and with TensorFlow SavedModels and TFLite models."""

import os
import sys

import keras

keras.utils.set_random_seed(0)
layers = keras.layers
image, extra = keras.Input((16, 16, 3), name="image"), keras.Input((4,), name="extra")
x = layers.BatchNormalization()(layers.Conv2D(8, 3, activation="relu")(image))
x = layers.Concatenate()([layers.GlobalAveragePooling2D()(x), extra])
outputs = [layers.Dense(5, activation="softmax", name="scores")(x), layers.Dense(2, name="side")(x)]
two = keras.Model({"image": image, "extra": extra}, outputs)
two.save("two.keras")
two.save("two.h5")
two.save_weights("only.weights.h5")
text = [
    keras.Input((None,), dtype="int32", name="ids"),
    layers.Embedding(50, 8),
    layers.Conv1D(4, 3, padding="same"),
]
keras.Sequential([*text, layers.GlobalMaxPooling1D(), layers.Dropout(0.5)]).save("text.keras")
doubled = keras.Sequential([keras.Input((4,)), layers.Lambda(lambda x: x * 2)])
doubled.save("lambda.keras")
doubled.save("lambda.h5")


class Own(layers.Layer):
    def call(self, x):
        return x + 1


keras.Sequential([keras.Input((4,)), Own()]).save("own.keras")
if "tensorflow" not in sys.argv:
    os._exit(0)
import tensorflow as tf  # noqa: E402 - Keras runs without it


class Module(tf.Module):
    @tf.function
    def __call__(self, x):
        return x + 1


two.export("saved")
tf.saved_model.save(Module(), "unsigned")
wide = keras.Sequential([keras.Input((64,)), layers.Dense(64), layers.Dense(8)])
for name, model, optimizations in (("plain", two, []), ("quantized", wide, [tf.lite.Optimize.DEFAULT])):
    model.export(name)
    converter = tf.lite.TFLiteConverter.from_saved_model(name)
    converter.optimizations = optimizations
    with open(f"{name}.tflite", "wb") as file:  # noqa: PTH123 - as the documentation of TensorFlow does
        file.write(converter.convert())
