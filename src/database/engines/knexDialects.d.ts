// The dialects that Knex documents as base classes for custom dialects, but does not type.
declare module 'knex/lib/dialects/better-sqlite3/index.js' {
  import type { Knex } from 'knex';

  interface QueryObject {
    readonly sql: string;
    readonly bindings: readonly unknown[];
    response?: unknown;
    context?: { lastID: number; changes: number };
  }
  class BetterSqlite3Client extends Knex.Client {
    _query(connection: unknown, query: QueryObject): Promise<QueryObject>;
  }
  export = BetterSqlite3Client;
}

declare module 'knex/lib/dialects/postgres/index.js' {
  import type { Knex } from 'knex';

  class PostgresClient extends Knex.Client {}
  export = PostgresClient;
}
