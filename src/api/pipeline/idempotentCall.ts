import type { Violation } from '../../kernel/errors';
import type { UnaryHandler } from './handlers';
import type { IdempotencyStore } from './idempotencyStore';
import type { MethodDefinition } from './definitions';
import type { ServerCall } from './serverCall';
import { DecodeFailure } from './decodeFailure';

const VALID_KEY = /^[\x20-\x7e]{1,255}$/;

/**
 * Reads the idempotency key of a call if its method supports one, and stores the key in the context. A method that
 * recognizes repeated requests itself names a request field in its proto option: then the key is stored in this field,
 * unless the request sets the field. Returns `violations`, and a violation for an invalid key.
 */
export function applyIdempotencyKey(
  call: ServerCall,
  request: unknown,
  violations: readonly Violation[],
): readonly Violation[] {
  const keyUse = call.method.descriptor.idempotencyKey;
  const key = keyUse && call.header('idempotency-key');
  if (key === undefined || request instanceof DecodeFailure) return violations;
  if (!VALID_KEY.test(key))
    return [
      ...violations,
      {
        field: 'Idempotency-Key',
        description: `must be 1 to 255 printable ASCII characters, for example a UUID (got ${key.length})`,
      },
    ];
  if (keyUse?.field) (request as Record<string, unknown>)[keyUse.field] ??= key;
  else call.context.idempotencyKey = key;
  return violations;
}

/**
 * Handles the first request with an idempotency key; for later equal requests it returns the stored response. Throws
 * `idempotency_key_reused`, and rethrows errors of the handler.
 */
export async function runOnce(store: IdempotencyStore, call: ServerCall, request: unknown): Promise<unknown> {
  const { context, method } = call;
  const { requestSerialize, responseSerialize, responseDeserialize } = method.definition as MethodDefinition;
  const { organizationId, keyId: apiKeyId } = context.principal;
  // The organization is omitted from the comparison: it always equals that of the API key, but a request may name it in
  // the message, in a header or in both.
  const comparableRequest = sortKeys({ ...(request as object), organizationId: '' }) as never;
  const keyedRequest = {
    organizationId,
    apiKeyId,
    apiKey: call.apiKey ?? '',
    method: context.path,
    idempotencyKey: context.idempotencyKey ?? '',
    request: requestSerialize(comparableRequest),
  };
  let handlerResponse: unknown;
  const { response, isReplay } = await store.runOnce(keyedRequest, async () => {
    handlerResponse = await (method.handler as UnaryHandler<unknown, unknown>)(request, context);
    return responseSerialize(handlerResponse as never);
  });
  context.isReplay = isReplay;
  // The first request receives the response of the handler itself, so that it need not be decoded.
  return isReplay ? responseDeserialize(Buffer.from(response)) : handlerResponse;
}

/** Sorts the keys of all objects in a value, so that JSON objects that differ only in key order become equal. */
function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const entries = Object.entries(value).toSorted(([firstName], [secondName]) => (firstName < secondName ? -1 : 1));
  return Object.fromEntries(entries.map(([name, item]) => [name, sortKeys(item)]));
}
