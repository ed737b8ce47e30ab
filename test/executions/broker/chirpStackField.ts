import type { Clock } from '../../../src/kernel/clock';
import { ChirpStackServer } from '../../support/chirpStack/chirpStackServer';
import type { FieldCommand } from './mqttField';

export const APPLICATION_ID = '3f2504e0-4f89-41d3-9a0c-0305e82c3301';

/** Simulates the devices of a site behind a ChirpStack server; each test controls them. */
export class ChirpStackField {
  /** The path of the level in the uplinks. */
  readonly levelPath = 'object.level';

  private constructor(readonly server: ChirpStackServer) {}

  static async start(url: string, clock: Clock, encoding: 'json' | 'protobuf' = 'json'): Promise<ChirpStackField> {
    const server = new ChirpStackServer({ url, applicationId: APPLICATION_ID, encoding, now: () => clock.now() });
    await server.start();
    return new ChirpStackField(server);
  }

  get commands(): FieldCommand[] {
    return this.server.commands.map(({ id, devEui, object }) => ({
      executionId: id,
      clientDeviceId: devEui,
      payload: object ?? {},
    }));
  }

  /** Waits for the n-th command (from 1) in the queue of a device and returns it. */
  async command(clientDeviceId: string, count: number): Promise<FieldCommand> {
    const found = (): FieldCommand | undefined =>
      this.commands.filter((one) => one.clientDeviceId === clientDeviceId)[count - 1];
    await this.server.until(() => found() !== undefined);
    return found() as FieldCommand;
  }

  /**
   * Sends an uplink without data from the device of a command, which opens its receive window, and has a gateway send
   * the command.
   */
  async deliver({ clientDeviceId }: FieldCommand): Promise<void> {
    await this.server.uplink(clientDeviceId, { object: { hello: true } });
    await this.server.txAck(clientDeviceId);
  }

  /** Sends an uplink of a device. Resolves when the broker has it. */
  async publishUplink(clientDeviceId: string, object: Readonly<Record<string, unknown>>): Promise<void> {
    await this.server.uplink(clientDeviceId, { object });
  }

  /** Sends the next frame of a device with this data, with or without the acknowledgement of a confirmed command. */
  async answer(
    { clientDeviceId }: FieldCommand,
    isOk: boolean,
    data: Readonly<Record<string, unknown>>,
  ): Promise<void> {
    await this.server.uplink(clientDeviceId, { object: data, acknowledges: isOk });
  }

  async stop(): Promise<void> {
    await this.server.stop();
  }
}

/** Returns the configuration of a connection to such a network server. */
export function chirpStackConfiguration(
  url: string,
  encoding: 'json' | 'protobuf' = 'json',
): Readonly<Record<string, unknown>> {
  return { url, protocol: '3.1.1', applicationId: APPLICATION_ID, encoding };
}
