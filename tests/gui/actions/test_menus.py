from edgeopt_gui.pages import PAGES
from edgeopt_gui.pages.optimize.page import ENTRY as OPTIMIZE


def entries(menu):
    return [action.text() for action in menu.actions() if not action.isSeparator()]


def test_every_action_is_in_a_menu_and_so_within_reach_of_the_keyboard(open_window):
    window = open_window()
    menus = {top.text().replace("&", ""): top.menu() for top in window.menuBar().actions()}
    assert list(menus)[:2] == ["File", "View"]
    assert list(menus)[-1] == "Help"
    for bound in window.book:
        assert bound.shown in menus[bound.action.menu].actions(), bound.action.key
    for entry in PAGES:
        assert entry.actions == () or entry.title in menus


def test_recent_files_are_in_the_file_menu_and_open_again(open_window, context, tmp_path):
    window = open_window()
    model = tmp_path / "a&b.onnx"
    model.write_bytes(b"not a model")
    file_menu = window.menuBar().actions()[0].menu()
    recent = next(action.menu() for action in file_menu.actions() if action.text() == "Recent files")
    assert not recent.isEnabled()
    window.open_paths([model])
    assert entries(recent) == ["a&&b.onnx", "Forget these files"]
    context.open(None)
    recent.actions()[0].trigger()
    assert context.subject.path == model
    recent.actions()[-1].trigger()
    assert not recent.isEnabled()


def test_the_menu_of_a_search_is_in_groups(open_window):
    window = open_window((OPTIMIZE,))
    menus = [next(t.menu() for t in window.menuBar().actions() if t.text() == "&Optimize")]
    window.show_page("optimize")
    menus.append(window.header._menu)
    for menu in menus:
        groups, actions = [[]], menu.actions()
        for action in actions:
            groups.append([]) if action.isSeparator() else groups[-1].append(action.objectName())
        assert groups[0][0] == "optimize.start"
        of_data = next(group for group in groups if "optimize.choose-data" in group)
        assert of_data[-1] == "optimize.clear-data"
        assert {"optimize.choose-folder", "optimize.use-beside"} < set(of_data)
        assert max(map(len, groups)) <= 6
        assert all(groups)
