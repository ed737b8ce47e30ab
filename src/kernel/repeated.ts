/** What an answer was encoded to, kept for the next time that it is given. */
export interface Encoded {
  /** Its JSON. */
  text?: string;
  /** The digest of that, as an entity tag has it. */
  digest?: string;
  /** Its bytes over gRPC. */
  bytes?: Buffer;
}

const known = new WeakMap<object, Encoded>();

/** Marks an answer that will be given again as the same object, and never changed: it is encoded once. */
export function repeated<Answer extends object>(answer: Answer): Answer {
  known.set(answer, {});
  return answer;
}

/** What a marked answer was encoded to so far; undefined for any other answer. */
export function encodedOf(answer: unknown): Encoded | undefined {
  return known.get(answer as object);
}
