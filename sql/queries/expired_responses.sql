select expired from tidegate.inbox_total;
