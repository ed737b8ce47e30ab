// A site as the tour of the README makes it: a connection of the kind gateway, a heating valve, its sensor, a command that opens it.
import { blocksOf } from '../tours/script.mjs';
import { must, PLANTROOM, shell } from './programs.mjs';

const STEPS = ['ConnectionService/CreateConnection', 'DigitalDeviceService/CreateDigitalDevice', 'ActuatorCommandService/CreateCommand'];
const NAMES = ['CONNECTION', 'DEVICE', 'SENSOR', 'COMMAND'];

/** Makes it. The variables of the tour: CONNECTION, DEVICE, SENSOR, COMMAND. `seconds`: how long the effect of the command is waited for. */
export async function makeSite(name, { folder, env, seconds = 60 }) {
  const blocks = blocksOf('README.md').filter(({ text }) => STEPS.some((step) => text.includes(step)));
  must(blocks.length === STEPS.length, `the tour of the README must have a block each for ${STEPS.join(', ')}`);
  const text = blocks.map((block) => block.text).join('').replaceAll('Boiler room', name).replace(/(convergenceTimeout\\": )60/, `$1${seconds}`);
  const said = await shell(`${PLANTROOM}${text}${NAMES.map((variable) => `echo "${variable}=$${variable}"`).join('\n')}`, { cwd: folder, env });
  return Object.fromEntries(NAMES.map((variable) => [variable, said.find((line) => line.startsWith(`${variable}=`)).slice(variable.length + 1)]));
}
