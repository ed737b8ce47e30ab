import { formatTimeline } from '../../src/cli/demo/demoTimeline';

const at = (ms: number): string => new Date(1_000_000 + ms).toISOString();

describe('the timeline of an execution', () => {
  it('shows when each state began, how long it lasted, and what it means', () => {
    const lines = formatTimeline([
      { time: at(0), to: 'enqueued' },
      { time: at(100), to: 'in_transit' },
      { time: at(200), to: 'delivered' },
      { time: at(250), to: 'delivered' },
      { time: at(900), to: 'accepted' },
      { time: at(1000), to: 'converged' },
    ]);
    expect(lines.map((line) => line.slice(0, 64))).toEqual([
      '  enqueued       0 ms  ===                              100 ms  ',
      '  in_transit   100 ms     ===                           100 ms  ',
      '  delivered    200 ms        ====================       700 ms  ',
      '  accepted     900 ms                            ===    100 ms  ',
      '  converged   1000 ms                               *      end  ',
    ]);
    expect(lines.at(-1)).toContain('the sensor shows the effect');
  });

  it('handles an execution that finished immediately, and one without states', () => {
    expect(formatTimeline([{ time: at(0), to: 'request_rejected' }])).toEqual([
      expect.stringMatching(/^ {2}request_rejected +0 ms {2}\* +end {2}the request was rejected$/),
    ]);
    expect(formatTimeline([])).toEqual([]);
  });

  it('calls only `accepted` an acknowledgement: an uplink after the command does not count', () => {
    const [accepted, ended] = formatTimeline([
      { time: at(0), to: 'accepted' },
      { time: at(1), to: 'accepted_no_l4' },
    ]);
    expect(accepted).toContain('the device acknowledged');
    expect(ended).toContain('a response or an uplink followed');
  });
});
