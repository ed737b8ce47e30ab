/** An exported dashboard (DashboardDocument) as JSON of the server. */
export interface DocumentJson {
  readonly name: string;
  readonly description: string;
  readonly content: ContentJson;
  readonly devices: readonly { readonly ref: string; readonly name: string; readonly clientDeviceId: string }[];
}

/** The content of a document. Widgets and layout have the same order. */
interface ContentJson {
  readonly widgets: readonly WidgetJson[];
  readonly layout: readonly {
    readonly column: number;
    readonly row: number;
    readonly width: number;
    readonly height: number;
  }[];
}

/** A widget of a document. */
interface WidgetJson {
  readonly kind: string;
  readonly title: string;
  readonly options?: DeviceJson;
  readonly series: readonly (DeviceJson & { readonly keyName: string })[];
}

/** What names a device in options or a series: its ref, a variable, or the name of a device that is missing. */
export interface DeviceJson {
  readonly deviceId?: string;
  readonly deviceVariable?: string;
  readonly missingDevice?: string;
}
