/** The encoded forms of a response, cached for the next time it is sent. */
export interface CachedEncoding {
  /** JSON. */
  text?: string;
  /** The digest of the JSON, formatted as an entity tag. */
  digest?: string;
  /** Bytes for gRPC. */
  bytes?: Buffer;
}

const encodings = new WeakMap<object, CachedEncoding>();

/** Marks a response object that is immutable and sent many times, so that it is encoded only once. */
export function markCacheable<Message extends object>(response: Message): Message {
  encodings.set(response, {});
  return response;
}

/** Returns the cached encodings of a marked response; undefined for any other response. */
export function getCachedEncoding(response: unknown): CachedEncoding | undefined {
  return encodings.get(response as object);
}
