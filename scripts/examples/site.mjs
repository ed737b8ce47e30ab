// Creates the site of the README: a gateway connection, a heating valve, its sensor, and a command that opens it.
import { listBlocks } from '../tours/script.mjs';
import { assertThat, PLANTROOM, runShell } from './programs.mjs';

const STEPS = [
  'ConnectionService/CreateConnection',
  'DigitalDeviceService/CreateDigitalDevice',
  'ActuatorCommandService/CreateCommand',
];
const NAMES = ['CONNECTION', 'DEVICE', 'SENSOR', 'COMMAND'];

/**
 * Creates the site and returns the variables of the README: CONNECTION, DEVICE, SENSOR, COMMAND. `seconds`: the convergence
 * timeout of the command.
 */
export async function createSite(name, { folder, env, seconds = 60 }) {
  const blocks = listBlocks('README.md').filter(({ text }) => STEPS.some((step) => text.includes(step)));
  assertThat(blocks.length === STEPS.length, `the README must contain one block for each of ${STEPS.join(', ')}`);
  const text = blocks
    .map((block) => block.text)
    .join('')
    .replaceAll('Boiler room', name)
    .replace(/(convergenceTimeout\\": )60/, `$1${seconds}`);
  const output = await runShell(
    `${PLANTROOM}${text}${NAMES.map((variable) => `echo "${variable}=$${variable}"`).join('\n')}`,
    { cwd: folder, env },
  );
  return Object.fromEntries(
    NAMES.map((variable) => [
      variable,
      output.find((line) => line.startsWith(`${variable}=`)).slice(variable.length + 1),
    ]),
  );
}
