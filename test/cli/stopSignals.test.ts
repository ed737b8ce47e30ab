import { listenForStopSignals } from '../../src/cli/server/stopSignals';
import { TestClock } from '../support/testClock';

describe('a stop signal', () => {
  it('counts once if both terminal and npm forward it, and a second request forces the stop', async () => {
    const clock = new TestClock();
    const before = process.listenerCount('SIGTERM');
    const hurried: string[] = [];
    const signals = listenForStopSignals(clock, (signal) => hurried.push(signal));
    process.emit('SIGINT', 'SIGINT');
    process.emit('SIGINT', 'SIGINT');
    clock.advance(999);
    process.emit('SIGTERM', 'SIGTERM');
    expect(await signals.first).toBe('SIGINT');
    expect(hurried).toEqual([]);
    clock.advance(2);
    process.emit('SIGTERM', 'SIGTERM');
    expect(hurried).toEqual(['SIGTERM']);
    signals.remove();
    expect(process.listenerCount('SIGTERM')).toBe(before);
  });
});
