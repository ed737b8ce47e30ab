import { UsageError } from '../exit';

/** What a device answered to a command. */
export type DeviceAnswer = { readonly ok: true; readonly message: string } | { readonly ok: false; readonly code: string; readonly message: string };

/** A device behind the simulated gateway. Its readings follow from its state and the count of readings, never from chance. */
export interface SimulatedDevice {
  /** As the connection knows it. */
  readonly clientDeviceId: string;
  /** The values of the next uplink. */
  read(): Record<string, unknown>;
  /** Does what a command says. */
  act(payload: unknown): DeviceAnswer;
}

const KINDS: Readonly<Record<string, (clientDeviceId: string) => SimulatedDevice>> = { valve: heatingValve, relay, room: roomSensor };

/** The devices that are played when none are named: a heating valve, a relay, a room sensor. */
export const USUAL_DEVICES: readonly string[] = ['valve-1', 'relay-1', 'room-1'];

/** Devices by their ids; the part before the first `-` says what each is: valve, relay or room. Throws UsageError for others. */
export function simulatedDevices(ids: readonly string[]): SimulatedDevice[] {
  return ids.map((id) => {
    const make = KINDS[id.split('-')[0] ?? ''];
    if (!make) throw new UsageError(`there is no simulated device ${JSON.stringify(id)}; its id must begin with ${Object.keys(KINDS).join(', ')}, for example valve-1`);
    return make(id);
  });
}

/** Takes `{"position": 0..100}`; sends position, temperature and battery. */
function heatingValve(clientDeviceId: string): SimulatedDevice {
  let position = 0;
  const wave = waves();
  return {
    clientDeviceId,
    read: () => ({ position, temperature: wave(35 + position / 4, 1.5), battery: 3.1 }),
    act: (payload) => {
      const wanted = memberOf(payload, 'position');
      if (typeof wanted !== 'number' || wanted < 0 || wanted > 100) return { ok: false, code: 'bad_position', message: 'position must be a number from 0 to 100' };
      position = wanted;
      return { ok: true, message: `position is ${position}` };
    },
  };
}

/** Takes `{"on": true}` or `{"relay": 0, "on": true}`; sends the states of its two relays. */
function relay(clientDeviceId: string): SimulatedDevice {
  const relays = [false, false];
  return {
    clientDeviceId,
    read: () => ({ relays: [...relays], power: relays.filter(Boolean).length * 42 }),
    act: (payload) => {
      const at = memberOf(payload, 'relay') ?? 0;
      const on = memberOf(payload, 'on');
      if ((at !== 0 && at !== 1) || typeof on !== 'boolean') return { ok: false, code: 'bad_relay', message: 'relay must be 0 or 1, on must be true or false' };
      relays[at] = on;
      return { ok: true, message: `relay ${at} is ${on ? 'on' : 'off'}` };
    },
  };
}

/** Takes no commands; sends temperature, humidity and CO2. */
function roomSensor(clientDeviceId: string): SimulatedDevice {
  const [temperature, humidity, co2] = [waves(), waves(), waves()];
  return {
    clientDeviceId,
    read: () => ({ object: { temperature: temperature(21, 2), humidity: humidity(45, 8), co2: Math.round(co2(600, 150)) } }),
    act: () => ({ ok: false, code: 'no_commands', message: 'a room sensor takes no commands' }),
  };
}

function waves(): (middle: number, height: number) => number {
  let count = 0;
  return (middle, height) => Math.round((middle + height * Math.sin((count++ * Math.PI) / 12)) * 100) / 100;
}

function memberOf(payload: unknown, name: string): unknown {
  return typeof payload === 'object' && payload !== null ? (payload as Readonly<Record<string, unknown>>)[name] : undefined;
}
