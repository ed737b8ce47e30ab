import type { TestApp } from './testApp';

/** What a key is limited to. */
export interface Limits {
  readonly deviceIds?: readonly string[];
  readonly connectionIds?: readonly string[];
  readonly commandIds?: readonly string[];
}

/** A key of all scopes but that of gateways which is limited to these things; not the API makes it, so that anything can be limited, whether it exists or not. */
export async function limitedKey(server: TestApp, organizationId: string, limits: Limits, scopes: readonly string[]): Promise<string> {
  const { key, id } = await server.newKey(organizationId, { scopes });
  const restrictions = JSON.stringify({ deviceIds: [], connectionIds: [], commandIds: [], ...limits });
  await server.database.database.db.knex('api_keys').where({ id }).update({ restrictions });
  return key;
}

