import type { Request, ServerStreamMethod } from '../calls/definitions';
import type { Reading, StreamReadingsRequest, StreamReadingsResponse } from '../gen/sensorquery/v1/sensor_query_service';
import { overLostLinks } from './lostLinks';
import type { WatchOptions } from './watchOptions';

/** Readings of the last while are known again: of so many, and of up to twice as many. */
const REMEMBERED = 25_000;

/** Of a client, what a stream of readings calls. */
export interface StreamsReadings {
  readonly readings: { readonly streamReadings: ServerStreamMethod<StreamReadingsRequest, StreamReadingsResponse> };
}

/**
 * Readings as they are stored, over lost links: from `resumeToken` of the request on, or from now. Each item holds at least one. Those of a sensor come in
 * the order in which they were stored. None is missed; what the server repeats is left out as long as it is among the last 25,000 at least, and a reading
 * that comes again all the same (after a restart from a token that you kept, too) has the same `sensorId` and `sequence`. Throws PlantroomError for what
 * another attempt cannot mend: `resume_token_expired` (readings are not all kept any more: stream without a token, and when the first token comes, at `onResumeToken`, read what is there by QueryRange),
 * `sensor_not_found`, `device_not_found`, `validation_failed` (a token of other sensors and devices), a key that may not.
 */
export async function* streamReadings(client: StreamsReadings, request: Request<StreamReadingsRequest> = {}, options: WatchOptions = {}): AsyncIterableIterator<StreamReadingsResponse> {
  let resumeToken = request.resumeToken ?? '';
  const told = new Told();
  const call = options.signal ? { signal: options.signal } : {};
  for await (const response of overLostLinks(client.readings, () => client.readings.streamReadings({ ...request, resumeToken }, call), options)) {
    const readings = response.readings.filter((reading) => told.isNew(reading));
    if (readings.length > 0) yield { ...response, readings };
    // Empty while more of the same stretch follows.
    if (response.resumeToken === '') continue;
    resumeToken = response.resumeToken;
    await options.onResumeToken?.(resumeToken);
  }
}

/** Which readings were told lately. */
class Told {
  private newer = new Set<string>();
  private older = new Set<string>();

  isNew({ sensorId, sequence }: Reading): boolean {
    const name = `${sequence} ${sensorId}`;
    if (this.newer.has(name) || this.older.has(name)) return false;
    if (this.newer.size >= REMEMBERED) [this.older, this.newer] = [this.newer, new Set()];
    this.newer.add(name);
    return true;
  }
}
