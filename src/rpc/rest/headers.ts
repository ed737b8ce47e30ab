import type { FastifyRequest } from 'fastify';
import { validationFailed } from '../../kernel/errors';

const KEY_NAMES = new Set(['apikey', 'api_key', 'api-key', 'x-api-key', 'key', 'token', 'access_token']);

/** Throws validation_failed for a query that carries a key: it would stand in logs, histories and referrers. */
export function refuseKeys(request: FastifyRequest): void {
  for (const [name, value] of request.query as URLSearchParams) {
    if (!KEY_NAMES.has(name.toLowerCase()) && !value.startsWith('plr_')) continue;
    throw validationFailed([{ field: KEY_NAMES.has(name.toLowerCase()) ? name : '', description: 'a key does not belong in an address, where others can read it; send it in the header X-API-Key, and replace this one' }]);
  }
}
