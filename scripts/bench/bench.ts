// npm run bench: measures costs as ratios within one run on one machine. The servers have one core, the load uses
// another.
import { cpus } from 'node:os';
import { benchAudit } from './auditing';
import { benchAuthentication } from './authentication';
import { benchCalls } from './calls';
import { benchDecoding } from './decoding';
import { benchExecutions } from './executions';
import { benchFootprint } from './footprint';
import { benchGatewayLibrary } from './gatewayLibrary';
import { benchHistory } from './history';
import { readArgument, print, isShort } from './measure';
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

const FLAGS_WITHOUT_VALUE = ['--short', '--large'];
const FLAGS_WITH_VALUE = ['--only', '--engine', '--profile'];

/** Throws if there is an unknown argument, which would otherwise be ignored while everything runs for minutes. */
function checkArguments(words: readonly string[]): void {
  const unknown = words.filter(
    (word, at) =>
      ![...FLAGS_WITHOUT_VALUE, ...FLAGS_WITH_VALUE].includes(word) && !FLAGS_WITH_VALUE.includes(words[at - 1] ?? ''),
  );
  if (unknown.length > 0)
    throw new Error(
      `unknown argument ${unknown.join(' ')}: use ${[...FLAGS_WITHOUT_VALUE, ...FLAGS_WITH_VALUE.map((flag) => `${flag} ...`)].join(', ')} (for example --only gateway)`,
    );
}

/** Returns the topics of --only, or all. */
function selectTopics(): string[] {
  const only = readArgument('--only')?.split(',') ?? Object.keys(TOPICS);
  const unknown = only.filter((topic) => !(topic in TOPICS));
  if (unknown.length > 0)
    throw new Error(`unknown topic ${unknown.join(',')} in --only: use ${Object.keys(TOPICS).join(',')}`);
  return only;
}

async function main(): Promise<void> {
  checkArguments(process.argv.slice(2));
  const topics = selectTopics();
  print(
    `plantroom bench${isShort ? ' --short' : ''}: node ${process.version}, ${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores, server ${pinSelf() ? 'on a separate core' : 'not pinned: taskset is not installed'}`,
  );
  for (const topic of topics) await TOPICS[topic]?.();
}

void main();
