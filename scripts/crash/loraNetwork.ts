import { ChirpStackServer } from '../../test/support/chirpStack/chirpStackServer';
import { addReading, type ReadingTotals } from './countReadings';
import type { World } from './world';

/** The ChirpStack application of the devices. */
export const APPLICATION_ID = '3f2504e0-4f89-41d3-9a0c-0305e82c3301';

/** An uplink event of ChirpStack, as JSON. */
interface PositionEvent {
  readonly object: { readonly position: number };
}

/** A LoRaWAN network with class A devices that respond immediately. They carry out a command each time it is sent. */
export class LoraNetwork {
  private readonly server: ChirpStackServer;

  constructor(url: string, world: World, devEuis: readonly string[]) {
    this.server = new ChirpStackServer({
      url,
      applicationId: APPLICATION_ID,
      encoding: 'json',
      auto: {
        transmitted: (clientDeviceId, item) =>
          world.carryOut({ executionId: item.id, clientDeviceId, payload: JSON.parse(item.data.toString()) }),
        reply: (clientDeviceId) => ({ position: world.positions.get(clientDeviceId) ?? 0 }),
      },
    });
    for (const devEui of devEuis) this.server.addDevice(devEui);
  }

  /** The published uplinks with a position. */
  get accepted(): ReadingTotals {
    return this.server.published
      .filter(({ topic, payload }) => topic.endsWith('/up') && payload.includes('"position"'))
      .map(({ payload }) => JSON.parse(payload.toString()) as PositionEvent)
      .reduce<ReadingTotals>((totals, { object }) => addReading(totals, object.position), { count: 0, sum: 0 });
  }

  /** Connects to the broker; the queues keep their content. */
  async start(): Promise<void> {
    await this.server.start();
  }

  /** Disconnects from the broker. */
  async stop(): Promise<void> {
    await this.server.drop();
  }
}
