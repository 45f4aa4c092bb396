// An operator of a user's own, `test.Triple`: three times its input.
#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/op/op.hpp>
#include <openvino/frontend/extension.hpp>
#include <openvino/frontend/onnx/extension/conversion.hpp>

class Triple : public ov::op::Op {
public:
    OPENVINO_OP("Triple", "test");
    Triple() = default;
    explicit Triple(const ov::Output<ov::Node>& x) : Op({x}) { constructor_validate_and_infer_types(); }
    void validate_and_infer_types() override {
        set_output_type(0, get_input_element_type(0), get_input_partial_shape(0));
    }
    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        return std::make_shared<Triple>(inputs.at(0));
    }
    bool visit_attributes(ov::AttributeVisitor&) override { return true; }
    bool has_evaluate() const override { return true; }
    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        outputs[0].set_shape(inputs[0].get_shape());
        const float* x = inputs[0].data<float>();
        float* y = outputs[0].data<float>();
        for (size_t k = 0; k < inputs[0].get_size(); ++k) y[k] = 3 * x[k];
        return true;
    }
};

OPENVINO_CREATE_EXTENSIONS(std::vector<ov::Extension::Ptr>({
    std::make_shared<ov::OpExtension<Triple>>(),
    std::make_shared<ov::frontend::onnx::ConversionExtension>("Triple", "test",
        [](const ov::frontend::NodeContext& node) -> ov::OutputVector { return {std::make_shared<Triple>(node.get_input(0))}; })}));
