import type { ExecutionPayload, FrozenQuery } from '../execution';

type StoredPayload = { readonly json: unknown } | { readonly base64: string };
type StoredQuery = Omit<FrozenQuery, 'tries'> & {
  readonly tries: readonly { readonly executionId: string; readonly payload: StoredPayload }[];
};

/** Serializes a query for storage, with bytes as base64. */
export function queryToText(query: FrozenQuery): string {
  const tries = query.tries.map(({ executionId, payload }) => ({
    executionId,
    payload:
      payload.kind === 'json' ? { json: payload.value } : { base64: Buffer.from(payload.bytes).toString('base64') },
  }));
  return JSON.stringify({ ...query, tries } satisfies StoredQuery);
}

/** Parses the result of queryToText. */
export function queryFromText(text: string): FrozenQuery {
  const stored = JSON.parse(text) as StoredQuery;
  return {
    ...stored,
    tries: stored.tries.map(({ executionId, payload }) => ({ executionId, payload: toPayload(payload) })),
  };
}

function toPayload(payload: StoredPayload): ExecutionPayload {
  return 'json' in payload
    ? { kind: 'json', value: payload.json }
    : { kind: 'bytes', bytes: Buffer.from(payload.base64, 'base64') };
}
