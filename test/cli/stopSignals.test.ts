import { stopSignals } from '../../src/cli/server/stopSignals';
import { TestClock } from '../support/testClock';

describe('a stop', () => {
  it('is asked for once, also when terminal and npm both pass it on, and hurried by a second wish', async () => {
    const clock = new TestClock();
    const before = process.listenerCount('SIGTERM');
    const hurried: string[] = [];
    const signals = stopSignals(clock, (signal) => hurried.push(signal));
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
