"""What tests share: stand-ins of models and servers, programs under test, desktops in memory."""
