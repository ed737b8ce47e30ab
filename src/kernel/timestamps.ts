/** A google.protobuf.Timestamp as the generated code holds it. */
export interface TimestampMessage {
  seconds: number;
  nanos: number;
}

/** Unix milliseconds as a Timestamp. */
export function toTimestamp(milliseconds: number): TimestampMessage {
  const seconds = Math.floor(milliseconds / 1000);
  return { seconds, nanos: (milliseconds - seconds * 1000) * 1_000_000 };
}

/** The same; absent stays absent. */
export function optionalTimestamp(milliseconds: number | undefined): TimestampMessage | undefined {
  return milliseconds === undefined ? undefined : toTimestamp(milliseconds);
}

/** Unix milliseconds of a Timestamp, less what is finer than a millisecond. */
export function fromTimestamp(timestamp: TimestampMessage): number {
  return timestamp.seconds * 1000 + Math.floor(timestamp.nanos / 1_000_000);
}
