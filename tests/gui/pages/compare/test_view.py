from edgeopt_gui.pages.compare.rows import LayerRow
from edgeopt_gui.pages.compare.view import CompareView


def test_long_names_of_layers_are_whole_where_there_is_room(qtbot):
    view = CompareView()
    qtbot.addWidget(view)
    table = view.layers
    table.setParent(None)
    qtbot.addWidget(table)
    table.resize(1400, 300)
    table.show()
    name = "BatchNormalization 'node__native_batch_norm_legit_no_training__0'"
    table.records.set_rows([LayerRow("value", name, name, 40.0, "40.0 dB", 0.1, False)])
    table.fit()
    wide = table.fontMetrics().horizontalAdvance(name)
    assert min(table.columnWidth(place) for place in (2, 3)) > wide
