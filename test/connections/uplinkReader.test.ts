import fc from 'fast-check';
import { gatewayDefinition } from '../../src/connections/connectors/gateway/gatewayDefinition';
import { readUplink } from '../../src/connections/connectors/gateway/uplinkReader';
import { AttachRequest, type Uplink } from '../../src/gen/gateway/v1/gateway_service';
import { getUplinkId } from './fakeEvents';

const SEED = 20_261_121;
const IDENTITY = { organizationId: 'org-1', connectionId: 'c', gatewayId: 'g', bootId: 'b' };

describe(`reading uplinks (seed ${SEED})`, () => {
  it('accepts any JSON object of a device unchanged or gives the reason for the rejection', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 40 })), (json) => {
        const read = readUplink(
          IDENTITY,
          {
            uplinkId: 'u',
            clientDeviceId: 'd',
            time: undefined,
            payload: { $case: 'json', value: json },
            fPort: undefined,
          },
          7,
        );
        if ('reason' in read) expect(read.reason).toMatch(/^payload_too_(deep|large): /);
        else expect(read.payload).toEqual({ kind: 'json', value: json });
      }),
      { seed: SEED, numRuns: 300 },
    );
  });

  it.each<[string, Uplink['payload'], object]>([
    [
      'rejects a key __proto__',
      { $case: 'json', value: { a: 1, XXproto__: { x: 1 } } },
      { reason: expect.stringContaining('payload_key_refused: ') },
    ],
    [
      'rejects a nested key __proto__',
      { $case: 'json', value: { list: [{ inner: { XXproto__: 2 } }] } },
      { reason: expect.stringContaining('payload_key_refused: ') },
    ],
    [
      'accepts __proto__ as a value',
      { $case: 'json', value: { a: 'XXproto__' } },
      { payload: { kind: 'json', value: { a: '__proto__' } } },
    ],
    [
      'accepts __proto__ in bytes',
      { $case: 'bytes', value: Buffer.from('\n\tXXproto__') },
      { payload: { kind: 'bytes', bytes: Buffer.from('\n\t__proto__') } },
    ],
  ])('%s', (_, payload, expected) => {
    const uplink: Uplink = { uplinkId: 'u', clientDeviceId: 'd', time: undefined, payload, fPort: undefined };
    const bytes = Buffer.from(AttachRequest.encode({ message: { $case: 'uplink', value: uplink } }).finish());
    bytes.write('__proto__', bytes.indexOf('XXproto__'), 'latin1'); // The encoder drops the key too.
    const { message } = gatewayDefinition.attach.requestDeserialize(bytes);
    expect(readUplink(IDENTITY, message?.value as Uplink, 7)).toMatchObject(expected);
  });

  it('never throws for any field values, and accepts nothing that violates a rule', () => {
    const text = fc.string({ unit: 'binary', maxLength: 80 });
    const time = fc.option(fc.record({ seconds: fc.double(), nanos: fc.integer() }), { nil: undefined });
    const payload = fc.oneof(
      fc.constant(undefined),
      fc.record({ $case: fc.constant('json' as const), value: fc.dictionary(text, fc.anything()) }),
    );
    const uplinks = fc.record({
      uplinkId: text,
      clientDeviceId: text,
      time,
      payload,
      fPort: fc.option(fc.integer(), { nil: undefined }),
    });
    fc.assert(
      fc.property(uplinks, (uplink) => {
        const read = readUplink(IDENTITY, uplink, 7);
        if ('reason' in read) expect(read.reason).toMatch(/^[a-z_]+: ./);
        else
          expect([
            getUplinkId(read).isWellFormed(),
            read.clientDeviceId.trim(),
            (read.fPort ?? 0) >= 0,
            Number.isFinite(read.time ?? 0),
          ]).toEqual([true, read.clientDeviceId, true, true]);
      }),
      { seed: SEED, numRuns: 1000 },
    );
  });
});
