import { encodeUplink } from '../../../src/client/gateway/uplinks/uplinkMessage';
import { buildUplinkFrame } from '../../../src/client/gateway/link/uplinkFrame';
import type { GatewayUplink } from '../../../src/client/gateway';
import { gatewayDefinition } from '../../../src/connections/connectors/gateway/gatewayDefinition';
import { readUplink } from '../../../src/connections/connectors/gateway/uplinkReader';
import { AttachRequest, type Uplink } from '../../../src/gen/gateway/v1/gateway_service';

const SEED = 20261123;
const CASES = 3000;
const TEXTS = ['', 'a', 'temperature', '__proto__', 'Grüße 🌡', '"\\\n', 'x'.repeat(70), 'y'.repeat(12_000), '\u0000'];
const DEVICES = [
  'room-1',
  ' room-1 ',
  '',
  ' ',
  'a\u0001',
  'd'.repeat(255),
  'd'.repeat(256),
  '🌡'.repeat(200),
  '🌡'.repeat(256),
];
const IDS = ['u1', '', 'u'.repeat(64), 'u'.repeat(65), '🌡'.repeat(64), '🌡'.repeat(65), 'a\nb', 'a b'];
const PORTS = [undefined, 0, 1, 255, 256, -1];

/** Returns a generator of numbers from 0 to 1, the same for the same seed (mulberry32). */
function getRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = Math.trunc(state + 0x6d2b79f5);
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

describe(`uplink rules of the gateway library, seed ${SEED}`, () => {
  const random = getRandom(SEED);
  const below = (max: number): number => Math.floor(random() * max);
  const pickOne = <Item>(items: readonly Item[]): Item => items[below(items.length)] as Item;

  function object(depth: number): Record<string, unknown> {
    return Object.fromEntries(Array.from({ length: below(4) }, () => [pickOne(TEXTS.slice(0, -2)), value(depth - 1)]));
  }

  function value(depth: number): unknown {
    const kind = below(depth > 0 ? 8 : 5);
    if (kind === 0) return pickOne([null, true, false]);
    if (kind === 1)
      return pickOne([
        0,
        -1.5,
        1e300,
        -1e-300,
        2 ** 53,
        random(),
        ...(below(20) === 0 ? [Number.NaN, Number.POSITIVE_INFINITY] : []),
      ]);
    if (kind <= 4) return pickOne(TEXTS);
    return kind === 5 ? Array.from({ length: below(4) }, () => value(depth - 1)) : object(depth);
  }

  function wrapValue(levels: number): Record<string, unknown> {
    let inner = object(2);
    for (let level = 0; level < levels; level++) inner = { inner };
    return inner;
  }

  function uplink(): GatewayUplink {
    const odd = below(4) === 0;
    const fPort = odd ? pickOne(PORTS) : undefined;
    const payload =
      below(8) === 0
        ? ({ kind: 'bytes', bytes: new Uint8Array(pickOne([0, 3, 65_536, 65_537])) } as const)
        : ({ kind: 'json', value: below(6) === 0 ? wrapValue(pickOne([28, 30, 31, 32, 40])) : object(5) } as const);
    return {
      uplinkId: odd ? pickOne(IDS) : 'u1',
      clientDeviceId: odd ? pickOne(DEVICES) : 'room-1',
      payload,
      ...(fPort !== undefined && { fPort }),
    };
  }

  it('accept exactly what the server accepts', () => {
    const counts = { taken: 0, refused: 0 };
    for (let n = 0; n < CASES; n++) {
      const generated = uplink();
      let frame: Buffer | undefined;
      try {
        frame = buildUplinkFrame(encodeUplink(generated).message);
      } catch (error) {
        // The stubs drop a member with that name, so the server would not receive it.
        const isLost = (error as Error).message.includes('__proto__');
        if (!isLost && isTaken(encodeUnchecked(generated)))
          throw new Error(`the library refused what the server takes: ${(error as Error).message}`, { cause: error });
      }
      if (frame && !isTaken(frame))
        throw new Error(`the library took what the server rejects: ${JSON.stringify(generated).slice(0, 500)}`);
      counts[frame ? 'taken' : 'refused'] += 1;
    }
    expect(counts.taken).toBeGreaterThan(CASES / 4);
    expect(counts.refused).toBeGreaterThan(CASES / 20);
  });

  it('encode an uplink of any length as the server reads it', () => {
    for (const length of [0, 1, 100, 127, 128, 16_000, 16_384, 65_536]) {
      const { message } = AttachRequest.decode(
        buildUplinkFrame(
          encodeUplink({
            uplinkId: 'u1',
            clientDeviceId: 'a',
            payload: { kind: 'bytes', bytes: new Uint8Array(length).fill(7) },
          }).message,
        ),
      );
      expect(message).toMatchObject({
        $case: 'uplink',
        value: { uplinkId: 'u1', clientDeviceId: 'a', payload: { $case: 'bytes', value: Buffer.alloc(length, 7) } },
      });
    }
  });
});

/** Whether the server stores the uplink in this encoded message. */
function isTaken(frame: Buffer): boolean {
  const message = findMessage(frame);
  return (
    message?.$case === 'uplink' &&
    !('reason' in readUplink({ organizationId: 'o', connectionId: 'c', gatewayId: 'g', bootId: 'b' }, message.value, 0))
  );
}

/** Undefined: the message is nested so deeply, without an ID, that the stream ends. */
function findMessage(frame: Buffer): AttachRequest['message'] {
  try {
    return gatewayDefinition.attach.requestDeserialize(frame).message;
  } catch {
    return undefined;
  }
}

/** Encodes the message that would be sent without the rules of the library. */
function encodeUnchecked({ uplinkId = '', clientDeviceId, payload, fPort }: GatewayUplink): Buffer {
  const sent: Uplink['payload'] =
    payload.kind === 'json'
      ? { $case: 'json', value: payload.value }
      : { $case: 'bytes', value: Buffer.from(payload.bytes) };
  return Buffer.from(
    AttachRequest.encode({
      message: { $case: 'uplink', value: { uplinkId, clientDeviceId, time: undefined, payload: sent, fPort } },
    }).finish(),
  );
}
