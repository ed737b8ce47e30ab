import type { ClientHttp2Session } from 'node:http2';
import { StreamReadingsRequest, StreamReadingsResponse, type Reading } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { target } from './fleet';
import { frame, open } from './load';
import type { PlantroomServer } from './plantroomServer';

/** Reads what is stored of some sensors as it is stored, on node:http2: lean, as all clients of the bench. */
export class ReadingTail {
  private rest: Buffer = Buffer.alloc(0);

  private constructor(
    private readonly session: ClientHttp2Session,
    private readonly onReading: (reading: Reading) => void,
  ) {}

  /** Resolves when the stream has begun. At most 200 sensors. */
  static async open(server: PlantroomServer, sensorIds: readonly string[], onReading: (reading: Reading) => void): Promise<ReadingTail> {
    const { path, headers, ...where } = target(server, server.key, '/sensorquery.v1.SensorQueryService/StreamReadings');
    const session = await open(where);
    const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...headers });
    const tail = new ReadingTail(session, onReading);
    await new Promise<void>((resolve, reject) => {
      stream.on('data', (chunk: Buffer) => tail.take(chunk, resolve));
      stream.on('trailers', (trailers) => reject(new Error(`the stream of readings ended: ${String(trailers['grpc-message'])}`)));
      stream.on('error', reject);
      stream.end(frame(StreamReadingsRequest.encode(StreamReadingsRequest.fromPartial({ sensorIds: [...sensorIds] })).finish()));
    });
    return tail;
  }

  close(): void {
    this.session.destroy();
  }

  private take(chunk: Buffer, begun: () => void): void {
    this.rest = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk]);
    while (this.rest.length >= 5 && this.rest.length >= 5 + this.rest.readUInt32BE(1)) {
      const end = 5 + this.rest.readUInt32BE(1);
      const { readings } = StreamReadingsResponse.decode(this.rest.subarray(5, end));
      this.rest = this.rest.subarray(end);
      begun();
      for (const reading of readings) this.onReading(reading);
    }
  }
}
