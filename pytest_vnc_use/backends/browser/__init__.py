"""The browser on a desktop, through Chrome DevTools."""
