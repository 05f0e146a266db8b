// Connections to the database, and its clock.

import pg from "pg";

/** The seconds of a clock that never steps. */
export const now = (): number => performance.now() / 1000;

/** Whether the same statement may succeed later. */
export function isUnavailable(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return /^(08|40|53|55|57|58)/.test(error.code ?? "");
  return !(error instanceof TypeError);
}

/** A few connections, opened when needed and closed after an error. */
export class Database {
  private readonly pool: pg.Pool;

  constructor(private readonly url: string, limit: number) {
    this.pool = new pg.Pool({
      connectionString: url,
      // Claims and extensions are durable before a call begins, whatever the server's default is.
      options: "-c synchronous_commit=on",
      max: 4,
      keepAlive: true,
      connectionTimeoutMillis: limit * 1000,
      query_timeout: limit * 1000,
    });
    // The statement that uses the connection has the error, too.
    this.pool.on("error", () => {});
  }

  /** The rows of a statement, which is a transaction of its own. Nothing is prepared, so that any pooler will do. */
  async rows<Row extends object>(text: string, values: unknown[] = [], limit?: number): Promise<Row[]> {
    const config = limit === undefined ? { text, values } : { text, values, query_timeout: limit * 1000 };
    return (await this.pool.query<Row>(config)).rows;
  }

  /** A connection of its own. */
  client(url = this.url): pg.Client {
    const limits = { connectionTimeoutMillis: 5000, query_timeout: 5000 };
    return new pg.Client({ connectionString: url, keepAlive: true, ...limits });
  }

  async close(): Promise<void> {
    await this.pool.end();
  }
}

/**
 * When a reserved send may start, by the clock of this process.
 *
 * The fastest recent answer counts as immediate. Another one was delayed by the difference, and its send shall not be
 * late by that.
 */
export class DatabaseClock {
  // By how much this process's clock is ahead of the database's.
  private ahead = Infinity;
  private at = 0;

  /** Reads the database's clock, by an answer that is fast. */
  async read(database: Database): Promise<void> {
    const askedAt = now();
    const sql = "select extract(epoch from tidegate.clock())::float8 as at";
    for (const { at } of await database.rows<{ at: number }>(sql)) this.start(at, 0, askedAt);
  }

  /** The start of a send that may begin `startIn` seconds after the database's `reservedAt`. */
  start(reservedAt: number, startIn: number, askedAt: number): number {
    const knownAt = now();
    const ahead = knownAt - reservedAt;
    // A millisecond a second is more than clocks drift apart.
    let fastest = Math.min(ahead, this.ahead + 0.001 * (knownAt - this.at));
    // No answer is delayed for longer than its round trip: the database's clock has stepped back.
    if (ahead - fastest > knownAt - askedAt) fastest = ahead;
    [this.ahead, this.at] = [fastest, knownAt];
    return knownAt - (ahead - fastest) + startIn;
  }
}
