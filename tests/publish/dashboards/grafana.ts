// What a dashboard's JSON has to be, by the types that Grafana publishes.
import type { AnnotationQuery, Dashboard, Panel, RowPanel } from "@grafana/schema";
import type * as barchart from "@grafana/schema/dist/esm/raw/composable/barchart/panelcfg/x/BarChartPanelCfg_types.gen";
import type * as bargauge from "@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen";
import type * as heatmap from "@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen";
import type * as stat from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as statetimeline from "@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen";
import type * as table from "@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen";
import type * as timeseries from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

// In JSON an enum is its value.
type Json<T> = T extends string
  ? `${T}`
  : T extends number | boolean | null | undefined
    ? T
    : T extends Array<infer E>
      ? Array<Json<E>>
      : { [K in keyof T]: Json<T[K]> };

// A panel with the options of its kind; what is left out has Grafana's default.
type Of<Type extends string, Options, Custom> = Omit<Json<Panel>, "type" | "options" | "fieldConfig"> & {
  type: Type;
  options: Partial<Json<Options>>;
  fieldConfig: {
    defaults: Omit<Json<NonNullable<NonNullable<Panel["fieldConfig"]>["defaults"]>>, "custom"> & {
      custom?: Partial<Json<Custom>>;
    };
    overrides: Json<NonNullable<Panel["fieldConfig"]>["overrides"]>;
  };
};

type Known =
  | Of<"barchart", barchart.Options, barchart.FieldConfig>
  | Of<"bargauge", bargauge.Options, {}>
  | Of<"heatmap", heatmap.Options, heatmap.FieldConfig>
  | Of<"stat", stat.Options, {}>
  | Of<"state-timeline", statetimeline.Options, statetimeline.FieldConfig>
  | Of<"table", table.Options, table.FieldConfig>
  | Of<"timeseries", timeseries.Options, timeseries.FieldConfig>;

// What Prometheus's data source adds to an annotation is published in no types.
type Mark = Omit<Json<AnnotationQuery>, "target"> & {
  titleFormat: string;
  textFormat: string;
  target: { expr: string; interval: string; refId: string };
};

export type Checked = Omit<Json<Dashboard>, "panels" | "annotations"> & {
  panels: Array<Known | (Json<RowPanel> & { panels: [] })>;
  annotations: { list: Mark[] };
};
