import pytest

from edgeopt_gui.widgets.chips import Chips

WORDS = ("avx", "avx2", "fma", "avx512f", "avx512bw")


@pytest.fixture
def chips(qtbot):
    made = Chips(WORDS)
    qtbot.addWidget(made)
    return made


def test_the_words_take_as_many_lines_as_they_need(chips):
    one_line = chips.heightForWidth(2000)
    widest = chips.minimumSizeHint().width()
    assert chips.heightForWidth(widest) > 3 * one_line
    assert Chips(()).heightForWidth(100) == 0


def test_screen_readers_hear_the_words(chips):
    assert chips.accessibleName() == "avx, avx2, fma, avx512f, avx512bw"


def test_something_is_drawn(chips):
    chips.resize(400, chips.heightForWidth(400))
    image = chips.grab().toImage()
    assert len({image.pixel(x, y) for x in range(image.width()) for y in range(image.height())}) > 2
