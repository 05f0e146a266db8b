-- The built-in queues and kinds. They come without limits and nominal times: `tidegate init` writes a starter set.
insert into tidegate.queue (name, stage) values ('readiness', 'readiness'), ('tx', 'tx')
on conflict do nothing;

insert into tidegate.kind (name, flow, readiness_queue, tx_queue, response_threshold) values
  ('public_decrypt', 'decrypt', 'readiness', 'tx', 1),
  ('user_decrypt',   'decrypt', 'readiness', 'tx', 3),
  ('input_proof',    'proof',   null,        'tx', 1),
  ('direct',         'direct',  null,        'tx', 1)
on conflict do nothing;
