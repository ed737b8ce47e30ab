// npm run bench: what things cost, as ratios in one run on one machine. The servers have one core, the load comes from another.
import { cpus } from 'node:os';
import { benchAudit } from './auditing';
import { benchAuthentication } from './authentication';
import { benchCalls } from './calls';
import { benchDecoding } from './decoding';
import { benchExecutions } from './executions';
import { benchFootprint } from './footprint';
import { benchGatewayLibrary } from './gatewayLibrary';
import { benchHistory } from './history';
import { argument, say, short } from './measure';
import { benchPreviews } from './previews';
import { benchProfiles } from './profiles';
import { benchReadingQueries } from './readingQueries';
import { benchRest } from './rest';
import { pinSelf } from './serverProcess';
import { benchUplinkGrowth } from './uplinkGrowth';
import { benchUplinks } from './uplinks';

const TOPICS: Readonly<Record<string, () => Promise<void>>> = {
  calls: benchCalls,
  rest: benchRest,
  authentication: benchAuthentication,
  audit: benchAudit,
  executions: benchExecutions,
  history: benchHistory,
  previews: benchPreviews,
  uplinks: benchUplinks,
  growth: benchUplinkGrowth,
  queries: benchReadingQueries,
  profiles: benchProfiles,
  decoding: benchDecoding,
  gateway: benchGatewayLibrary,
  footprint: benchFootprint,
};

const SWITCHES = ['--short', '--large'];
const FLAGS = ['--only', '--engine', '--profile'];

/** Throws where a word means nothing here: it would be passed over, and everything measured for minutes. */
function refuseStrange(words: readonly string[]): void {
  const strange = words.filter((word, at) => ![...SWITCHES, ...FLAGS].includes(word) && !FLAGS.includes(words[at - 1] ?? ''));
  if (strange.length > 0) throw new Error(`${strange.join(' ')} means nothing here; give some of ${[...SWITCHES, ...FLAGS.map((flag) => `${flag} ...`)].join(', ')}; a topic: --only gateway`);
}

/** Those of --only, or all. */
function topicsAsked(): string[] {
  const only = argument('--only')?.split(',') ?? Object.keys(TOPICS);
  const unknown = only.filter((topic) => !(topic in TOPICS));
  if (unknown.length > 0) throw new Error(`--only ${unknown.join(',')} is no topic; give some of ${Object.keys(TOPICS).join(',')}`);
  return only;
}

async function main(): Promise<void> {
  refuseStrange(process.argv.slice(2));
  const topics = topicsAsked();
  say(`plantroom bench${short ? ' --short' : ''}: node ${process.version}, ${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores, server ${pinSelf() ? 'on one core of its own' : 'not pinned: no taskset here'}`);
  for (const topic of topics) await TOPICS[topic]?.();
}

void main();
