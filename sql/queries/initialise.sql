select subject, name, value from tidegate.initialise();
