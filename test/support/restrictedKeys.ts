import type { TestApp } from './testApp';

/** The resources that a key is limited to. */
export interface Limits {
  readonly deviceIds?: readonly string[];
  readonly connectionIds?: readonly string[];
  readonly commandIds?: readonly string[];
}

/**
 * Creates a key of all scopes except those of gateways that is limited to these resources. It bypasses the API, so that
 * it can be limited to existing and missing resources.
 */
export async function createRestrictedKey(
  server: TestApp,
  organizationId: string,
  limits: Limits,
  scopes: readonly string[],
): Promise<string> {
  const { key, id } = await server.newKey(organizationId, { scopes });
  const restrictions = JSON.stringify({ deviceIds: [], connectionIds: [], commandIds: [], ...limits });
  await server.database.database.db.knex('api_keys').where({ id }).update({ restrictions });
  return key;
}
