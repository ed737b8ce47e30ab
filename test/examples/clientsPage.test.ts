import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(__dirname, '../..');
const PAGES = readdirSync(join(ROOT, 'docs')).filter((name) => name.endsWith('.md'));
const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

/** The blocks of a page that say from which file they are. */
const excerptsOf = (page: string): { file: string; text: string }[] => [...page.matchAll(/<!-- from (\S+) -->\n```\w+\n([\s\S]*?)^```/gm)].map(([, file = '', text = '']) => ({ file, text }));

/** The methods that gRPC is told to send again, as `service/method`. */
const repeatedIn = (text: string): string[] => [...text.matchAll(/\{"service": "([\w.]+)", "method": "(\w+)"\}/g)].map(([, service, method]) => `${service}/${method}`).toSorted();

describe('excerpts of the examples in docs/', () => {
  const excerpts = PAGES.flatMap((name) => excerptsOf(textOf(`docs/${name}`)).map((excerpt) => [name, excerpt] as const));

  it.each(excerpts)('%s shows what the file holds, line by line: %j', (_, { file, text }) => {
    expect(`\n${textOf(file)}`.includes(`\n${text}`) ? text : `${file} holds:\n${textOf(file)}`).toBe(text);
  });

  it('show each language', () => {
    expect(new Set(excerpts.map(([, { file }]) => file.split('/')[2]))).toEqual(new Set(['go', 'python', 'typescript']));
  });
});

describe('the examples', () => {
  it('name the exact versions of what they need', () => {
    const requirements = textOf('docs/examples/python/requirements.txt').split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    expect(requirements.filter((line) => !/^[a-z-]+==\d+(\.\d+)+$/.test(line))).toEqual([]);
    expect(requirements).toHaveLength(5);
  });

  it('need the TypeScript that the package names', () => {
    const { devDependencies } = JSON.parse(textOf('docs/examples/typescript/package.json')) as { devDependencies: { typescript: string } };
    expect(textOf('src/client/README.md')).toContain(`TypeScript ${devDependencies.typescript.replace('>=', '')} or newer`);
  });

  it('send again only what is safe to repeat: reads, and ExecuteCommand, which carries a trigger id', () => {
    const python = repeatedIn(textOf('docs/examples/python/client.py'));
    expect(python).toEqual(['actuator_command.v2.ActuatorCommandService/ExecuteCommand', 'actuator_command.v2.ActuatorCommandService/GetExecution', 'digitaldevice.v2.DigitalDeviceService/ListDigitalDevices']);
    expect(repeatedIn(textOf('docs/examples/go/connect.go'))).toEqual(python);
    expect(textOf('docs/examples/python/client.py')).toContain('trigger_id=str(uuid.uuid4())');
    expect(textOf('docs/examples/go/main.go')).toContain('TriggerId: &triggerID');
  });
});
