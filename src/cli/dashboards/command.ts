import { type Command, InvalidArgumentError, Option } from 'commander';
import { withTarget } from '../call/command';
import { appendValue } from '../options';
import type * as exportDashboard from './exportDashboard';
import type { ExportFlags } from './exportDashboard';
import type { DashboardFlags } from './format';
import type * as importDashboard from './importDashboard';
import type { DeviceBinding, ImportFlags } from './importDashboard';
import type * as listDashboards from './listDashboards';
import type { ListFlags } from './listDashboards';
import type * as showDashboard from './showDashboard';
import type * as starterDashboards from './starterDashboards';
import type { StarterFlags } from './starterDashboards';

// gRPC and YAML are loaded only by the commands that need them.
const loadList = (): typeof listDashboards => require('./listDashboards');
const loadShow = (): typeof showDashboard => require('./showDashboard');
const loadExport = (): typeof exportDashboard => require('./exportDashboard');
const loadImport = (): typeof importDashboard => require('./importDashboard');
const loadStarter = (): typeof starterDashboards => require('./starterDashboards');

/** Adds `plantroom dashboards list|show|export|import|starter`. */
export function addDashboards(program: Command): void {
  const group = program.command('dashboards').description('List, show, export and import dashboards.');
  addCommand(group, 'list', 'List the dashboards that you may view, by name.')
    .option('--search <text>', 'Only dashboards whose name contains this text')
    .action((flags: ListFlags) => loadList().runList(flags));
  addCommand(group, 'show <dashboard>', 'Show the widgets of a dashboard, by its name or id.').action(
    (dashboard: string, flags: DashboardFlags) => loadShow().runShow(dashboard, flags),
  );
  addExport(group);
  addImport(group);
  addCommand(group, 'starter', 'Create the starter dashboards that are missing: overview, connections, device models.')
    .option('--again', 'Also create the starter dashboards that were deleted')
    .action((flags: StarterFlags) => loadStarter().runStarter(flags));
}

function addExport(group: Command): void {
  withTarget(
    group
      .command('export <dashboard> [file]')
      .description('Export a dashboard, by its name or id, as a document without ids, to a file or to stdout.'),
  )
    .addOption(new Option('-o, --output <format>', 'yaml or json').choices(['yaml', 'json']).default('yaml'))
    .option('--json', 'Print output as JSON, same as --output json')
    .addHelpText('after', '\nExample:\n  plantroom dashboards export "Boiler house" boiler-house.yaml')
    .action((dashboard: string, file: string | undefined, flags: ExportFlags) =>
      loadExport().runExport(dashboard, file, flags),
    );
}

function addImport(group: Command): void {
  addCommand(group, 'import <file>', 'Create a dashboard from an exported document, YAML or JSON (- reads stdin).')
    .option('--dry-run', 'Show which devices would be found, and create nothing; exit code 1 if something is missing')
    .option(
      '--device <ref=device>',
      'Use this device, by id or name, for a ref of the document; can be repeated',
      (text: string, previous?: readonly DeviceBinding[]) => appendValue(parseBinding(text), previous),
    )
    .option('--name <name>', 'Name of the new dashboard (default: the name in the document)')
    .addHelpText(
      'after',
      '\nExample:\n  plantroom dashboards import boiler-house.yaml --device "device1=Boiler 2" --dry-run',
    )
    .action((file: string, flags: ImportFlags) => loadImport().runImport(file, flags));
}

/** Adds a subcommand that calls a server and prints a table, JSON or YAML. */
function addCommand(group: Command, name: string, description: string): Command {
  return withTarget(group.command(name).description(description))
    .addOption(
      new Option('-o, --output <format>', 'table, json or yaml').choices(['table', 'json', 'yaml']).default('table'),
    )
    .option('--json', 'Print output as JSON, same as --output json');
}

function parseBinding(text: string): DeviceBinding {
  const [, ref, device] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
  if (ref === undefined || device === undefined)
    throw new InvalidArgumentError('use REF=DEVICE, for example device1="Boiler 2"');
  return { ref, device };
}
