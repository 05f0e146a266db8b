select kind, req_status::text as status, requests from tidegate.request_overview order by kind, req_status;
