import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(__dirname, '../..');
const PAGES = readdirSync(join(ROOT, 'docs')).filter((name) => name.endsWith('.md'));
const formatText = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

/** Returns the code blocks of a page that name their source file. */
const listExcerpts = (page: string): { file: string; text: string }[] =>
  [...page.matchAll(/<!-- from (\S+) -->\n```\w+\n([\s\S]*?)^```/gm)].map(([, file = '', text = '']) => ({
    file,
    text,
  }));

/** Returns the methods that gRPC may retry, as `service/method`. */
const repeatedIn = (text: string): string[] =>
  [...text.matchAll(/\{"service": "([\w.]+)", "method": "(\w+)"\}/g)]
    .map(([, service, method]) => `${service}/${method}`)
    .toSorted();

describe('excerpts of the examples in docs/', () => {
  const excerpts = PAGES.flatMap((name) =>
    listExcerpts(formatText(`docs/${name}`)).map((excerpt) => [name, excerpt] as const),
  );

  it.each(excerpts)('%s contains the code of the source file, line by line: %j', (_, { file, text }) => {
    expect(`\n${formatText(file)}`.includes(`\n${text}`) ? text : `${file} holds:\n${formatText(file)}`).toBe(text);
  });

  it('exist for each language', () => {
    expect(new Set(excerpts.map(([, { file }]) => file.split('/')[2]))).toEqual(
      new Set(['go', 'python', 'typescript']),
    );
  });
});

describe('the examples', () => {
  it('pin the exact versions of their dependencies', () => {
    const requirements = formatText('docs/examples/python/requirements.txt')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'));
    expect(requirements.filter((line) => !/^[a-z-]+==\d+(\.\d+)+$/.test(line))).toEqual([]);
    expect(requirements).toHaveLength(5);
  });

  it('require the TypeScript version that the package names', () => {
    const { devDependencies } = JSON.parse(formatText('docs/examples/typescript/package.json')) as {
      devDependencies: { typescript: string };
    };
    expect(formatText('src/client/README.md')).toContain(
      `TypeScript ${devDependencies.typescript.replace('>=', '')} or newer`,
    );
  });

  it('retry only what is safe to repeat: reads, and ExecuteCommand, which has a trigger ID', () => {
    const python = repeatedIn(formatText('docs/examples/python/client.py'));
    expect(python).toEqual([
      'actuator_command.v2.ActuatorCommandService/ExecuteCommand',
      'actuator_command.v2.ActuatorCommandService/GetExecution',
      'digitaldevice.v2.DigitalDeviceService/ListDigitalDevices',
    ]);
    expect(repeatedIn(formatText('docs/examples/go/connect.go'))).toEqual(python);
    expect(formatText('docs/examples/python/client.py')).toContain('trigger_id=str(uuid.uuid4())');
    expect(formatText('docs/examples/go/main.go')).toContain('TriggerId: &triggerID');
  });
});
