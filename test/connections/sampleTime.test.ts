import { InexactNumber } from '../../src/kernel/inexactNumber';
import { findTimeProblem, parseSampleTime, readSampleTime } from '../../src/connections/sampleTime';

/** 2026-11-28T17:54:37Z */
const SAMPLED_AT = 1_795_888_477_000;

/** Returns the time as ISO 8601, or the code of the reason. */
function parse(value: unknown, timeZone?: string): string {
  const parsed = parseSampleTime(value, timeZone);
  return 'time' in parsed ? new Date(parsed.time).toISOString() : (parsed.reason.split(':', 1)[0] ?? '');
}

it.each([
  '2026-11-28T17:54:37Z',
  '20261128T175437Z',
  '2026-11-28T19:54:37+02',
  '2026-11-28T19:54:37+0200',
  '2026-11-28T19:54:37+02:00',
  '20261128T195437+0200',
  '20261128T122437-0530',
  '2026-11-28T12:24:37\u221205:30',
  '2026-11-28t17:54:37z',
  '2026-11-28 17:54:37Z',
  '2026-11-28 19:54:37 +02:00',
  ' 2026-11-28T17:54:37Z\n',
  '2026-332T17:54:37Z',
  '2026332T175437Z',
  '2026-W48-6T17:54:37Z',
  '2026W486T175437Z',
  '1795888477',
  '1795888477000',
  '1795888477000000',
  '1795888477000000000',
  '1.795888477e+09',
  1_795_888_477,
  1_795_888_477_000,
  1_795_888_477_000_000,
  1_795_888_477_000_000_000,
])('%j names an instant', (value) => {
  expect(parseSampleTime(value)).toEqual({ time: SAMPLED_AT });
});

it.each([
  ['2026-11-28T17:54:37.5Z', '2026-11-28T17:54:37.500Z'],
  ['2026-11-28T17:54:37,57Z', '2026-11-28T17:54:37.570Z'],
  ['2026-11-28T17:54:37.123456Z', '2026-11-28T17:54:37.123Z'],
  ['2026-11-28T17:54:37.123456789+00:00', '2026-11-28T17:54:37.123Z'],
  ['2026-11-28T17:54Z', '2026-11-28T17:54:00.000Z'],
  ['2026-11-28T17Z', '2026-11-28T17:00:00.000Z'],
  ['2026-11-28T17:54.5Z', '2026-11-28T17:54:30.000Z'],
  ['20261128T17,25Z', '2026-11-28T17:15:00.000Z'],
  ['2026-11-28T24:00:00Z', '2026-11-29T00:00:00.000Z'],
  ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
  ['2028-02-29T00:00:00Z', '2028-02-29T00:00:00.000Z'],
  ['1795888477.123', '2026-11-28T17:54:37.123Z'],
  ['1795888477,5', '2026-11-28T17:54:37.500Z'],
  [1_795_888_477.57, '2026-11-28T17:54:37.570Z'],
  [1_795_888_477_123.9, '2026-11-28T17:54:37.123Z'],
  [1_795_888_477_123_456, '2026-11-28T17:54:37.123Z'],
  ['1795888477123456789', '2026-11-28T17:54:37.123Z'],
  ['20260230175437', '2612-01-09T09:42:55.437Z'], // no date, so milliseconds
])('%j is %s', (value, expected) => {
  expect(parse(value)).toBe(expected);
});

it.each([
  ['2026-02-30T00:00:00Z', 'time_impossible'],
  ['2027-02-29T00:00:00Z', 'time_impossible'],
  ['2026-13-01T00:00:00Z', 'time_impossible'],
  ['2026-366T00:00:00Z', 'time_impossible'],
  ['2026-W54-1T00:00:00Z', 'time_impossible'],
  ['2026-11-28T25:00:00Z', 'time_impossible'],
  ['2026-11-28T24:00:01Z', 'time_impossible'],
  ['2026-11-28T17:60:00Z', 'time_impossible'],
  ['2026-11-28T17:54:60Z', 'time_impossible'],
  ['2026-11-28T17:54:37+24:00', 'time_impossible'],
  ['2026-11-28T17:54:37', 'time_offset_missing'],
  ['20261128T175437', 'time_offset_missing'],
  ['2026-11-28 17:54', 'time_offset_missing'],
  ['2026-11-28', 'time_of_day_missing'],
  ['2026-11', 'time_unreadable'],
  ['2026-11T17:54:37Z', 'time_unreadable'],
  ['Sat, 28 Nov 2026 17:54:37 GMT', 'time_unreadable'],
  ['17:54:37Z', 'time_unreadable'],
  ['soon', 'time_unreadable'],
  ['20261128', 'time_unreadable'],
  ['202611281754', 'time_unreadable'],
  ['20261128175437', 'time_unreadable'],
  ['1e30', 'time_unreadable'],
  [-1, 'time_unreadable'],
  [true, 'time_unreadable'],
  [{ seconds: 1_795_888_477 }, 'time_unreadable'],
  [[1_795_888_477], 'time_unreadable'],
])('%j names no instant: %s', (value, code) => {
  expect(parse(value)).toBe(code);
});

it.each([
  ['2026-11-28T18:54:37', '2026-11-28T17:54:37.000Z'],
  ['2026-07-28T19:54:37', '2026-07-28T17:54:37.000Z'],
  ['20261128T185437,5', '2026-11-28T17:54:37.500Z'],
  ['2026-11-28T17:54:37Z', '2026-11-28T17:54:37.000Z'],
  ['2026-10-25T02:30:00', 'time_ambiguous'],
  ['2026-10-25T02:30:00+02:00', '2026-10-25T00:30:00.000Z'],
  ['2026-10-25T03:00:00', '2026-10-25T02:00:00.000Z'],
  ['2026-03-29T02:30:00', 'time_impossible'],
  ['2026-03-29T03:30:00', '2026-03-29T01:30:00.000Z'],
  ['2026-11-28', 'time_of_day_missing'],
])('%s in Europe/Rome: %s', (text, expected) => {
  expect(parse(text, 'Europe/Rome')).toBe(expected);
});

it.each([undefined, null, ''])('%j is no time, and no problem', (value) => {
  expect(readSampleTime(value)).toEqual({ time: undefined });
});

it('keeps the value that was not read as an example', () => {
  const { timeProblem } = readSampleTime('soon');
  expect(timeProblem?.example).toBe('"soon"');
  expect(timeProblem?.reason).toMatch(/^time_unreadable: send ISO 8601/);
});

it('has the value of an unlikely time as it was sent, and reads a number that is not exact', () => {
  expect(findTimeProblem(readSampleTime('12,5'), SAMPLED_AT)?.example).toBe('"12,5"');
  expect(readSampleTime(new InexactNumber('1795888477123456789', 1_795_888_477_123_456_800)).time).toBe(
    SAMPLED_AT + 123,
  );
});

it.each([
  ['2026-11-28T17:54:37Z', undefined],
  ['2026-11-28T17:59:37Z', undefined],
  ['2026-11-28T17:59:37.001Z', 'time_in_future'],
  ['2026-11-28T19:54:37Z', 'time_in_future'],
  [20_261_128_175_437, 'time_in_future'],
  [20_261_128, 'time_before_2000'],
  [0, 'time_before_2000'],
])('%j that arrives at 17:54:37: %s', (value, code) => {
  const problem = findTimeProblem(readSampleTime(value), SAMPLED_AT);
  expect(problem?.reason.split(':', 1)[0]).toBe(code);
});
