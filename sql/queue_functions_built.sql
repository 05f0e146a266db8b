-- Each function that reads or writes queues' tables has a branch for every queue that is there (see `each_queue`).
select tidegate_internal.build_queue_functions();
