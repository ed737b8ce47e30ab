import fc from 'fast-check';
import { Status } from '../../src/gen/google/rpc/status';
import { RetryInfo } from '../../src/gen/google/rpc/error_details';
import { CommitOutcomeUnknownError } from '../../src/database';
import { DomainError } from '../../src/kernel/errors';
import { encodeDetails, getRetryPushback } from '../../src/api/errors/errorDetails';
import { toWire } from '../../src/api/errors/errorTable';

const SEED = 20261121;
const wire = (options: ConstructorParameters<typeof DomainError>[3]) =>
  toWire(new DomainError('exhausted', 'rate_limited', 'wait', options), 'request');

describe('error details', () => {
  it(`are encodable with any content (seed ${SEED})`, () => {
    const text = fc.string({ unit: 'binary', maxLength: 400 });
    const options = fc.record({
      retryAfterMs: fc.oneof(fc.double(), fc.constantFrom(NaN, Infinity, -1, 29_999.0000123, 1e18)),
      metadata: fc.dictionary(fc.string(), text),
      violations: fc.array(fc.record({ field: text, description: text })),
    });
    fc.assert(
      fc.property(options, (given) => Status.decode(encodeDetails(wire(given))).details.length >= 3),
      { seed: SEED },
    );
  });

  it('round the retry delay up to whole milliseconds', () => {
    const { details } = Status.decode(encodeDetails(wire({ retryAfterMs: 797.123 })));
    expect(RetryInfo.decode(details.at(-1)?.value ?? Buffer.alloc(0)).retryDelay).toEqual({
      seconds: 0,
      nanos: 798_000_000,
    });
  });

  it('tell clients that retry automatically when to retry, or not to retry within this call', () => {
    const waits = [0, 0.1, 1000, 5000, 5001, 1e18, -3, Number.NaN];
    expect(waits.map((retryAfterMs) => getRetryPushback(wire({ retryAfterMs })))).toEqual([
      '0',
      '1',
      '1000',
      '5000',
      '-1',
      '-1',
      '0',
      '-1',
    ]);
    expect(getRetryPushback(wire({}))).toBeUndefined();
  });

  it('never ask clients to repeat a call that may have been carried out', () => {
    expect(getRetryPushback(toWire(new CommitOutcomeUnknownError(Promise.resolve(), undefined), 'request'))).toBe('-1');
    expect(getRetryPushback(wire({ isInDoubt: true }))).toBe('-1');
  });
});
