call tidegate.maintain();
