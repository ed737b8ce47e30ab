import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { formatConsoleLine } from '../../src/cli/consoleFormat';
import { LOG_MESSAGES } from '../../src/cli/logMessages';
import { RepeatedWarnings } from '../../src/cli/repeatedWarnings';

const sources = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !/^(gen|client)\//.test(file) && !file.includes('logMessages'))
  .map((file) => readFileSync(join('src', file), 'utf8'))
  .join('\n');

/** Events in calls such as `log.warn({ … }, 'module.what_happened')`. */
const logged = [...sources.matchAll(/\blog\??\.(?:debug|info|warn|error)\([^;]*?'([a-z_]+\.[a-z_]+)'/g)].map(
  ([, event = '']) => event,
);

describe('log messages', () => {
  it('exist for every event', () => {
    expect(logged.length).toBeGreaterThan(100);
    expect([...new Set(logged)].filter((event) => !(event in LOG_MESSAGES))).toEqual([]);
  });

  it('start with a capital letter and do not end with a period', () => {
    expect(Object.values(LOG_MESSAGES).filter((message) => !/^[A-Z][^.]+[^.]$/.test(message))).toEqual([]);
  });
});

const line = (fields: object): string =>
  JSON.stringify({ level: 'warn', time: '2026-11-25T12:00:00.000Z', message: 'Disk is full', ...fields });

describe('the console format', () => {
  const plain = new PassThrough() as unknown as NodeJS.WriteStream;

  it('shows time, level, message, event and fields', () => {
    expect(formatConsoleLine(line({ free_bytes: 0, path: 'a b', event: 'disk.full' }), plain)).toMatch(
      /^\d\d:\d\d:\d\d WARN {2}Disk is full {2}disk\.full free_bytes=0 path="a b"\n$/,
    );
  });

  it('shows the stack of an error on lines of its own', () => {
    const err = { type: 'Error', message: 'no such file', stack: 'Error: no such file\n    at open' };
    expect(formatConsoleLine(line({ err, event: 'disk.full' }), plain)).toContain(
      'disk.full err="no such file"\n    Error: no such file\n        at open\n',
    );
  });

  it('has colors on a terminal', () => {
    const terminal = Object.assign(new PassThrough(), {
      isTTY: true,
      getColorDepth: () => 8,
    }) as unknown as NodeJS.WriteStream;
    expect(formatConsoleLine(line({ event: 'disk.full' }), terminal)).toContain('\u001B[');
  });
});

describe('repeated warnings', () => {
  it('are limited for each connection, and the number of the others is reported', () => {
    const reported: object[] = [];
    const warnings = new RepeatedWarnings((repeated) => reported.push(repeated));
    const written = (connection: string, times: number): number =>
      Array.from({ length: times }, () =>
        warnings.shouldWrite({ connection_id: connection, n: 1 }, 'mqtt.message_failed'),
      ).filter(Boolean).length;
    expect([written('a', 25), written('b', 3)]).toEqual([10, 3]);
    warnings.flush();
    expect(reported).toEqual([{ of: 'mqtt.message_failed', count: 15 }]);
    expect(written('a', 1)).toBe(1);
    warnings.flush();
    expect(reported).toHaveLength(1);
  });
});
