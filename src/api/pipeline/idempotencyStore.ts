/** A request with an idempotency key. */
export interface IdempotentRequest {
  readonly organizationId: string;
  readonly apiKeyId: string;
  /** The API key itself; the stored response can only be read with it. */
  readonly apiKey: string;
  /** `/package.Service/Method`. Idempotency keys of different methods are independent. */
  readonly method: string;
  readonly idempotencyKey: string;
  /** The serialized request; equal requests have equal bytes. */
  readonly request: Uint8Array;
}

/** The response to a request with an idempotency key. */
export interface IdempotentResponse {
  readonly response: Uint8Array;
  /** Whether this is the stored response of an earlier request; then nothing was changed. */
  readonly isReplay: boolean;
}

/**
 * Stores the responses to requests with an idempotency key. The api module depends on this interface; the composition
 * root (server) passes the implementation in.
 */
export interface IdempotencyStore {
  /**
   * Runs the work and stores its response in one transaction, or returns the stored response. Of concurrent equal
   * requests, the first runs the work and the others wait for it. Throws `idempotency_key_reused` for a different
   * request, and rethrows errors of the work; then nothing is stored.
   */
  runOnce(request: IdempotentRequest, work: () => Promise<Uint8Array>): Promise<IdempotentResponse>;
}
