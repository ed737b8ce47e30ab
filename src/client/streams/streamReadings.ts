import type { Request, ServerStreamMethod } from '../calls/definitions';
import type {
  Reading,
  StreamReadingsRequest,
  StreamReadingsResponse,
} from '../gen/sensorquery/v1/sensor_query_service';
import { withReconnect } from './reconnect';
import type { WatchOptions } from './watchOptions';

/** The number of recent readings that are certainly recognized when they are repeated; up to twice as many are. */
const MIN_REMEMBERED_READINGS = 25_000;

/** The part of a client that streamReadings uses. */
export interface StreamReadingsClient {
  readonly readings: { readonly streamReadings: ServerStreamMethod<StreamReadingsRequest, StreamReadingsResponse> };
}

/**
 * Streams readings from `resumeToken` of the request, or from now, and reconnects automatically. The readings of a
 * sensor come in the order in which they are stored. Each item contains at least one reading. No reading is missed.
 * Readings that the server repeats are removed if they are among the last 25,000. A reading that is repeated
 * nevertheless, for example after a restart from a stored token, has the same `sensorId` and `sequence`.
 *
 * Throws PlantroomError for errors that a retry cannot fix: `resume_token_expired` (some readings are no longer stored:
 * stream without a token, and at the first call of `onResumeToken` read the existing readings with QueryRange),
 * `sensor_not_found`, `device_not_found`, `validation_failed` (for example the token of other sensors and devices), and
 * errors of a key without permission.
 */
export async function* streamReadings(
  client: StreamReadingsClient,
  request: Request<StreamReadingsRequest> = {},
  options: WatchOptions = {},
): AsyncIterableIterator<StreamReadingsResponse> {
  let resumeToken = request.resumeToken ?? '';
  const deliveredReadings = new DeliveredReadings();
  const callOptions = options.signal ? { signal: options.signal } : {};
  for await (const response of withReconnect(
    client.readings,
    () => client.readings.streamReadings({ ...request, resumeToken }, callOptions),
    options,
  )) {
    const readings = response.readings.filter((reading) => deliveredReadings.rememberIfNew(reading));
    if (readings.length > 0) yield { ...response, readings };
    // The token is empty if more readings of the same batch follow.
    if (response.resumeToken === '') continue;
    resumeToken = response.resumeToken;
    await options.onResumeToken?.(resumeToken);
  }
}

/** Remembers the readings that were returned recently. */
class DeliveredReadings {
  private newer = new Set<string>();
  private older = new Set<string>();

  /**
   * Remembers the reading and returns true, unless it was returned recently. When the newer set is full, it becomes the
   * older one, so that old readings are forgotten at constant cost.
   */
  rememberIfNew({ sensorId, sequence }: Reading): boolean {
    const readingKey = `${sequence} ${sensorId}`;
    if (this.newer.has(readingKey) || this.older.has(readingKey)) return false;
    if (this.newer.size >= MIN_REMEMBERED_READINGS) {
      this.older = this.newer;
      this.newer = new Set();
    }
    this.newer.add(readingKey);
    return true;
  }
}
