import {
  DashboardVariableKind,
  DashboardVisibility,
  type Dashboard as DashboardMessage,
  type DashboardContent as ContentMessage,
  type DashboardDocument as DocumentMessage,
  type ImportDashboardRequest,
  type ImportDashboardResponse,
  type DashboardVariable as VariableMessage,
  type UpdateDashboardRequest,
  type WatchDashboardsResponse,
} from '../gen/dashboard/v2/dashboard_service';
import type { Violation } from '../kernel/errors';
import { getEtag } from '../kernel/etags';
import { toTimestamp } from '../kernel/timestamps';
import type {
  Dashboard,
  DashboardContent,
  DashboardVariable,
  DashboardWithContent,
  Visibility,
  Widget,
  WidgetInput,
} from './dashboard';
import { EMPTY_CONTENT } from './content';
import { DOCUMENT_FORMAT, DOCUMENT_VERSION, type DashboardDocument } from './dashboardDocument';
import type { DashboardChange } from './dashboardService';
import type { DashboardUpdate } from './dashboardWatch';
import type { DashboardImport, ImportResult } from './importDashboard';
import { convertSeries, widgetFromMessage, widgetToMessage } from './widgetMessages';

/** Converts a dashboard with its content to its proto message. */
export function dashboardToMessage(dashboard: DashboardWithContent): DashboardMessage {
  return { ...listedDashboardToMessage(dashboard), content: contentToMessage(dashboard.content) };
}

/** Converts a dashboard to its proto message without content, as in lists. */
export function listedDashboardToMessage(dashboard: Dashboard): DashboardMessage {
  return {
    id: dashboard.id,
    organizationId: dashboard.organizationId,
    name: dashboard.name,
    description: dashboard.description,
    ownerUserId: dashboard.ownerUserId,
    visibility:
      dashboard.visibility === 'private'
        ? DashboardVisibility.DASHBOARD_VISIBILITY_PRIVATE
        : DashboardVisibility.DASHBOARD_VISIBILITY_ORGANIZATION,
    editorRoleIds: [...dashboard.editorRoleIds],
    content: undefined,
    revision: dashboard.revision,
    updatedByUserId: dashboard.updatedByUserId,
    createdAt: toTimestamp(dashboard.createdAt),
    updatedAt: toTimestamp(dashboard.updatedAt),
    etag: getEtag(dashboard.revision),
    widgetCount: dashboard.widgetCount,
  };
}

/** Converts a visibility; unspecified: the organization. */
export function visibilityFromMessage(visibility: DashboardVisibility): Visibility {
  return visibility === DashboardVisibility.DASHBOARD_VISIBILITY_PRIVATE ? 'private' : 'organization';
}

/** Converts the changes of a dashboard. */
export function changeFromMessage(request: UpdateDashboardRequest): DashboardChange {
  const { name, description, visibility, editorRoleIds, clearEditorRoleIds } = request;
  return {
    name,
    description,
    // A client can send the value 0 of an optional enum, which means not set.
    visibility: visibility ? visibilityFromMessage(visibility) : undefined,
    editorRoleIds: clearEditorRoleIds || editorRoleIds.length > 0 ? editorRoleIds : undefined,
  };
}

/** Reports editor roles that are set and cleared at the same time. */
export function checkUpdateRequest({ editorRoleIds, clearEditorRoleIds }: UpdateDashboardRequest): Violation[] {
  return clearEditorRoleIds && editorRoleIds.length > 0
    ? [{ field: 'clearEditorRoleIds', description: 'cannot be combined with editorRoleIds: set only one of them' }]
    : [];
}

/** Converts content of a request; undefined: no widgets. */
export function contentFromMessage(content: ContentMessage | undefined): DashboardContent<WidgetInput> {
  if (!content) return EMPTY_CONTENT;
  return {
    widgets: content.widgets.map(widgetFromMessage),
    layout: content.layout,
    variables: content.variables.map(variableFromMessage),
    lastSeconds: content.lastSeconds,
  };
}

function contentToMessage(content: DashboardContent<Widget>): ContentMessage {
  return { ...frameToMessage(content), widgets: content.widgets.map(widgetToMessage) };
}

function frameToMessage({ layout, variables, lastSeconds }: DashboardContent<WidgetInput>): ContentMessage {
  return { widgets: [], layout: [...layout], variables: variables.map(variableToMessage), lastSeconds };
}

function variableFromMessage({ name, label, kind, keyNames, choices, value }: VariableMessage): DashboardVariable {
  const isDevice = kind === DashboardVariableKind.DASHBOARD_VARIABLE_KIND_DEVICE;
  return { name, label, kind: isDevice ? 'device' : 'choice', keyNames, choices, value };
}

function variableToMessage({ kind, keyNames, choices, ...variable }: DashboardVariable): VariableMessage {
  return {
    ...variable,
    kind:
      kind === 'device'
        ? DashboardVariableKind.DASHBOARD_VARIABLE_KIND_DEVICE
        : DashboardVariableKind.DASHBOARD_VARIABLE_KIND_CHOICE,
    keyNames: [...keyNames],
    choices: [...choices],
  };
}

/** Converts an update of the watch. */
export function updateToMessage(update: DashboardUpdate): WatchDashboardsResponse {
  const empty = { id: '', revision: 0, updatedByUserId: '', deleted: false, complete: false };
  if (update.kind === 'complete') return { ...empty, complete: true };
  if (update.kind === 'deleted') return { ...empty, id: update.id, deleted: true };
  return { ...empty, id: update.id, revision: update.revision, updatedByUserId: update.updatedByUserId };
}

/** Converts an exported dashboard. */
export function documentToMessage({ name, description, content, devices }: DashboardDocument): DocumentMessage {
  return {
    format: DOCUMENT_FORMAT,
    formatVersion: DOCUMENT_VERSION,
    name,
    description,
    content: {
      ...frameToMessage(content),
      widgets: content.widgets.map(({ id, kind, title, options, series }) => ({
        id,
        dashboardId: '',
        kind,
        title,
        options,
        series: series.map(convertSeries),
        createdAt: undefined,
        updatedAt: undefined,
        etag: '',
        unknownKind: false,
      })),
    },
    devices: devices.map((device) => ({ ...device, keyNames: [...device.keyNames] })),
  };
}

/** Reports a document that this server cannot read. */
export function checkImportRequest({ document }: ImportDashboardRequest): Violation[] {
  if (!document) return []; // the field rules report it
  const { format, formatVersion } = document;
  if (format !== DOCUMENT_FORMAT)
    return [
      { field: 'document.format', description: `must be ${DOCUMENT_FORMAT}: send a response of ExportDashboard` },
    ];
  if (formatVersion === DOCUMENT_VERSION) return [];
  return [
    {
      field: 'document.formatVersion',
      description: `must be ${DOCUMENT_VERSION} (got ${formatVersion}): update this server to import a document of a newer version`,
    },
  ];
}

/** Converts an import. */
export function importFromMessage({ document, name, devices, dryRun }: ImportDashboardRequest): DashboardImport {
  return {
    document: {
      name: document?.name ?? '',
      description: document?.description ?? '',
      content: contentFromMessage(document?.content),
      devices: document?.devices ?? [],
    },
    name,
    devices: new Map(Object.entries(devices)),
    dryRun,
  };
}

/** Converts the result of an import. */
export function importToMessage({ dashboard, devices, missing }: ImportResult): ImportDashboardResponse {
  return {
    dashboard: dashboard && dashboardToMessage(dashboard),
    devices: Object.fromEntries(devices),
    missing: missing.map((reference) => ({ ...reference, keyNames: [...reference.keyNames] })),
    created: dashboard !== undefined,
  };
}
