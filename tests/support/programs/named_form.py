"""A form of GTK 3 with a field, a password, a choice, a button and a menu, for its
accessibility tree.
"""

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import Gtk  # noqa: E402

window = Gtk.Window(title="The form")
window.connect("destroy", Gtk.main_quit)
window.set_default_size(400, 260)
rows = Gtk.Box(orientation=Gtk.Orientation.VERTICAL)
window.add(rows)
bar = Gtk.MenuBar()
menu = Gtk.MenuItem(label="File")
menu.set_submenu(Gtk.Menu())
menu.get_submenu().append(Gtk.MenuItem(label="Open"))
bar.append(menu)
rows.add(bar)
for name, visible in (("_User", True), ("_Password", False)):
    label = Gtk.Label.new_with_mnemonic(name)
    entry = Gtk.Entry(visibility=visible, text="typed value")
    label.set_mnemonic_widget(entry)
    rows.add(label)
    rows.add(entry)
choice = Gtk.ComboBoxText()
choice.append_text("chosen value")
choice.set_active(0)
rows.add(choice)
rows.add(Gtk.Button(label="Sign in"))
rows.pack_start(Gtk.TextView(buffer=Gtk.TextBuffer(text="typed value")), True, True, 0)
window.show_all()
window.move(100, 80)
Gtk.main()
